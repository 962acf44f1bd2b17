// TSR_API marks what the shared library shows; everything else in it is hidden.
#ifndef TESSERA_EXPORT_H_
#define TESSERA_EXPORT_H_

#define TSR_API __attribute__((visibility("default")))

#endif  // TESSERA_EXPORT_H_
