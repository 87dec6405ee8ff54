#pragma once

#include <csignal>
#include <optional>

#include "runner/disk/descriptor.h"

namespace runner {

/// Turns signals into something that poll() can wait for. While one lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
/// SIGTSTP, SIGWINCH and SIGCHLD do nothing by themselves and SIGPIPE is ignored; its end restores what was before. A
/// signal that was ignored when it was made stays so (nohup, background jobs).
class SignalSource {
 public:
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// Readable when next() has something to give.
  int descriptor() const { return *descriptor_; }
  /// The next signal that has come, without waiting.
  std::optional<int> next();

 private:
  Descriptor descriptor_;
  sigset_t old_mask_{};
  struct sigaction old_pipe_ {};
  struct sigaction old_child_ {};
};

}  // namespace runner
