#include "runner/parent/run/worker_set.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
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

Result<WorkerProcess*> WorkerSet::start(const WorkerCommand& command) {
  auto worker = WorkerProcess::start(command);
  if (!worker) return worker.errors();
  workers_.push_back(std::make_unique<WorkerProcess>(*std::move(worker)));
  return workers_.back().get();
}

void WorkerSet::remove(const WorkerProcess& worker) {
  std::erase_if(occurred_, [&](const Occurrence& one) {
    const auto* of = std::get_if<NewsOf>(&one);
    return of && of->worker == &worker;
  });
  std::erase_if(workers_, [&](const auto& one) { return one.get() == &worker; });
}

WorkerSet::Occurrence WorkerSet::next(std::optional<std::chrono::milliseconds> timeout) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + timeout.value_or(std::chrono::milliseconds(0));
  while (occurred_.empty()) {
    if (!timeout) {
      wait(-1);
      continue;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const bool is_ready = wait(static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (!is_ready) return Timeout{};
  }
  Occurrence first = std::move(occurred_.front());
  occurred_.pop_front();
  return first;
}

bool WorkerSet::wait(int milliseconds) {
  std::vector<pollfd> watched = {{signals_.descriptor(), POLLIN, 0}};
  for (const auto& worker : workers_) {
    const WorkerProcess::Watched own = worker->watched();
    watched.insert(watched.end(), own.begin(), own.end());
  }
  const int ready = poll(watched.data(), watched.size(), milliseconds);
  if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
  if (ready <= 0) return ready < 0;
  WorkerProcess::Watched own;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    std::copy_n(watched.begin() + 1 + static_cast<std::ptrdiff_t>(i * own.size()), own.size(), own.begin());
    std::vector<WorkerNews> news;
    workers_[i]->serve(own, news);
    take(*workers_[i], std::move(news));
  }
  if (watched.front().revents) read_signals();
  return true;
}

void WorkerSet::take(WorkerProcess& worker, std::vector<WorkerNews> news) {
  for (WorkerNews& one : news) occurred_.push_back(NewsOf{&worker, std::move(one)});
}

void WorkerSet::read_signals() {
  while (const auto number = signals_.next()) {
    if (*number == SIGCHLD) {  // of one child or of several
      for (const auto& worker : workers_) {
        std::vector<WorkerNews> news;
        worker->collect(news);
        take(*worker, std::move(news));
      }
    } else if (*number == SIGTSTP) {
      for (const auto& worker : workers_) worker->signal_group(SIGSTOP);
      raise(SIGSTOP);
      for (const auto& worker : workers_) worker->signal_group(SIGCONT);
    } else {
      occurred_.push_back(SignalToUs{*number});
    }
  }
}

}  // namespace runner
