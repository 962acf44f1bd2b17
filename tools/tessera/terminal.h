// What the program may do on a terminal, and the line that says that something takes long.
#ifndef TESSERA_TOOLS_TESSERA_TERMINAL_H_
#define TESSERA_TOOLS_TESSERA_TERMINAL_H_

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::tools {

bool IsTerminal(std::FILE* file);
/// On a terminal that can, unless NO_COLOR is set (to anything) or TERM is dumb.
bool UseColour(std::FILE* file);
/// Columns; 80 where nobody knows.
int TerminalWidth(int fd);

/// Text with a colour, or as it is.
class Style {
 public:
  explicit Style(bool on) : on_(on) {}
  std::string Bold(std::string_view text) const { return With("1", text); }
  std::string Dim(std::string_view text) const { return With("2", text); }
  std::string Red(std::string_view text) const { return With("31", text); }
  std::string Green(std::string_view text) const { return With("32", text); }
  std::string Yellow(std::string_view text) const { return With("33", text); }
  std::string Cyan(std::string_view text) const { return With("36", text); }

 private:
  std::string With(std::string_view code, std::string_view text) const;
  bool on_;
};

/// While it lives and after one second of it: a line on stderr that counts the seconds, gone when it ends. Silent
/// unless stderr is a terminal. Whoever prints meanwhile does so between Hide() and Show().
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  /// Says something else from now on: "file 3 of 10".
  void Set(std::string what);
  void Hide();
  void Show();

 private:
  void Loop();
  void Erase();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string what_;
  bool done_ = false, hidden_ = false, drawn_ = false;
  std::thread thread_;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_TERMINAL_H_
