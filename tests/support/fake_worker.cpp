// A worker for tests of supervision: it plays the script in its arguments, one act each, "act" or
// "act:text". Events go to descriptor 3, like those of the real worker. "new|act" is played only
// for a new run, "again|act" only for a resumed run.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "runner/shared/protocol/event.h"

namespace {

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(descriptor, text.data(), text.size());
    if (size < 0) _exit(98);
    text.remove_prefix(size);
  }
}

bool is_resuming = false;

std::string read_line() {
  std::string line;
  for (char c; read(STDIN_FILENO, &c, 1) == 1;) {
    if (c == '\n') {
      is_resuming = is_resuming || line.find("\"resume\":true") != line.npos;
      return line;
    }
    line += c;
  }
  _exit(97);  // no more requests
}

void emit(const runner::Event& event) { write_all(3, runner::to_line(event) + "\n"); }

void act(const std::string& what, const std::string& text, const sigset_t& signals) {
  const int number = std::atoi(text.c_str());
  if (what == "hello")
    emit(runner::Hello{runner::kProtocolVersion,
                       text.empty() ? std::string(runner::build_id()) : text,
                       {{"libtorch", "2.11.0"}}});
  else if (what == "protocol") emit(runner::Hello{number, std::string(runner::build_id()), {}});
  else if (what == "ready") emit(runner::Ready{text.empty() ? "cpu" : text, 2});
  else if (what == "read") read_line();
  else if (what == "echo") emit(runner::Said{"fake", read_line()});
  else if (what == "told")
    emit(runner::Said{"fake", read_line().find(text) != text.npos ? "is told" : "is not told"});
  else if (what == "answer") emit(runner::Answer{{{"given", text}}});
  else if (what == "line") write_all(3, text + "\n");
  else if (what == "half") write_all(3, text);
  else if (what == "long") write_all(3, std::string(number, 'x'));
  else if (what == "out") write_all(STDOUT_FILENO, text + "\n");
  else if (what == "err") write_all(STDERR_FILENO, text + "\n");
  else if (what == "flood") write_all(STDERR_FILENO, std::string(number, 'y'));
  else if (what == "folder") std::filesystem::create_directories(text);
  else if (what == "finished") emit(runner::Finished{number});
  else if (what == "die") {  // by the signal itself, even if a sanitizer would catch it
    std::signal(number, SIG_DFL);
    kill(getpid(), number);
  } else if (what == "exit") _exit(number);
  else if (what == "wait") {  // for a signal, and reports which
    int came = 0;
    sigwait(&signals, &came);
    emit(runner::Said{"fake", "signal " + std::to_string(came)});
  } else if (what == "lock") {  // held until death
    const int file = open(text.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX) != 0) _exit(96);
  } else if (what == "descriptors") {
    std::string open_ones;
    for (int number = 0; number < 256; ++number) {
      if (fcntl(number, F_GETFD) >= 0)
        open_ones += (open_ones.empty() ? "" : " ") + std::to_string(number);
    }
    emit(runner::Said{"fake", open_ones});
  } else if (what == "variable") {
    const char* const value = std::getenv(text.c_str());
    emit(runner::Said{"fake", text + (value ? "='" + std::string(value) + "'" : " is not set")});
  } else if (what == "group")
    emit(runner::Said{"fake", getpgrp() == getpid() ? "leads its group" : "is in another's group"});
  else if (what == "forever")
    for (;;) pause();
  else _exit(95);
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const std::string when = is_resuming ? "again|" : "new|",
                      not_now = is_resuming ? "new|" : "again|";
    if (argument.starts_with(not_now)) continue;
    if (argument.starts_with(when)) argument.erase(0, when.size());
    const std::size_t colon = argument.find(':');
    act(argument.substr(0, colon), colon == argument.npos ? "" : argument.substr(colon + 1),
        signals);
  }
}
