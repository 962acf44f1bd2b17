/* Exits with 0 when a C program can use the installed library. */
#include <stdio.h>

#include "tessera/c_api.h"

int main(void) {
  const char* version = tsr_version();
  if (version == NULL || version[0] == '\0') {
    puts("tsr_version() is empty");
    return 1;
  }
  printf("package: the C application works with %s\n", version);
  return 0;
}
