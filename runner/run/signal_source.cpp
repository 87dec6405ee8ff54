#include "runner/run/signal_source.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <system_error>

namespace runner {
namespace {

bool is_ignored(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalSource::SignalSource() {
  struct sigaction action {};
  // A child's end must be seen even if whoever started us did not want to hear of theirs.
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &old_child_);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &old_pipe_);

  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH, SIGCHLD}) {
    if (!is_ignored(number)) sigaddset(&wanted, number);
  }
  sigprocmask(SIG_BLOCK, &wanted, &old_mask_);
  descriptor_ = Descriptor(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) {
    const int error = errno;
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    throw std::system_error(error, std::generic_category(), "signalfd");
  }
}

SignalSource::~SignalSource() {
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  sigaction(SIGCHLD, &old_child_, nullptr);
}

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (read(*descriptor_, &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace runner
