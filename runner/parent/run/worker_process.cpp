#include "runner/parent/run/worker_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runner/shared/disk/parked_thread.h"

namespace runner {
namespace {

constexpr int kEventsDescriptor = 3;
constexpr std::size_t kPiece = 64 << 10;

struct Pipe {
  Descriptor read, write;
};

/// Creates a pipe. The descriptors of both ends are above those that the child uses itself, and are
/// closed by exec.
Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const Descriptor low_read(ends[0]), low_write(ends[1]);
  Pipe result{Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 10)),
              Descriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, 10))};
  if (!result.read.is_open() ||
      !result.write.is_open())  // EINVAL: the limit is below these numbers
    throw std::system_error(errno == EINVAL ? EMFILE : errno, std::generic_category(), "pipe");
  return result;
}

void make_nonblocking(const Descriptor& descriptor) {
  fcntl(*descriptor, F_SETFL, fcntl(*descriptor, F_GETFL) | O_NONBLOCK);
}

/// Runs in the child after fork, whether it executes a program or a body; makes system calls only.
/// Returns an error number, or 0.
int prepare_child(pid_t parent, int requests, int output, int events) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return ESRCH;  // the parent died before PR_SET_PDEATHSIG was set
  if (dup2(requests, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
      dup2(output, STDERR_FILENO) < 0 || dup2(events, kEventsDescriptor) < 0) {
    return errno;
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &standard, nullptr);
  return 0;
}

/// Closes the other inherited descriptors. On old kernels without close_range, a program inherits
/// them.
void close_inherited(unsigned flags) {
  constexpr int kFirst = kEventsDescriptor + 1, kUsual = 1024;
  if (close_range(kFirst, ~0U, flags) == 0 || flags != 0) return;
  for (int descriptor = kFirst; descriptor < kUsual; ++descriptor) close(descriptor);
}

/// How long a worker's thread spins before it sleeps while waiting for the others. With libgomp's
/// default of 300,000 rounds, as soon as other processes compete for the cores, spinning threads
/// take them from the very threads that they are waiting for: alongside two such processes,
/// training ran at a tenth of its speed. With 1,000 rounds, training keeps its share of the cores;
/// without competition, it loses a few percent.
constexpr char kSpin[] = "GOMP_SPINCOUNT=1000";

/// Returns this process's environment with `changes`, plus a waiting policy for threads unless the
/// user has set one.
std::vector<char*> worker_environment(const std::vector<std::string>& changes) {
  std::vector<char*> all;
  for (char** variable = environ; *variable; ++variable) {
    const auto replaces = [&](const std::string& change) {
      return std::string_view(*variable).starts_with(change.substr(0, change.find('=') + 1));
    };
    if (std::ranges::none_of(changes, replaces)) all.push_back(*variable);
  }
  for (const std::string& change : changes) all.push_back(const_cast<char*>(change.c_str()));
  if (!getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY"))
    all.push_back(const_cast<char*>(kSpin));
  all.push_back(nullptr);
  return all;
}

/// True if fork without exec is safe. The child has only the thread that calls fork, so locks held
/// by other threads at that moment, such as the heap's, are never released. Parked threads hold no
/// locks.
bool may_be_copied() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1 + ParkedThread::count();
}

Result<std::filesystem::path> find_beside(const std::filesystem::path& own_executable,
                                          const std::string& program) {
  const auto folder = own_executable.parent_path();
  const std::array candidates = {folder / program, folder.parent_path() / "libexec" / program};
  for (const auto& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return Diagnostic{ErrorCode::kWorkerMissing,
                    {},
                    "",
                    "no program '" + program + "' in '" + folder.string() + "' or '" +
                        candidates[1].parent_path().string() + "'",
                    "build it (`cmake --build build --target " + program +
                        "`), or install all programs together"};
}

}  // namespace

Result<std::filesystem::path> find_worker(const std::filesystem::path& own_executable) {
  return find_beside(own_executable, "retort-worker");
}

Result<std::filesystem::path> find_tracker(const std::filesystem::path& own_executable) {
  return find_beside(own_executable, "retort-tracker");
}

Result<WorkerProcess> WorkerProcess::start(const WorkerCommand& command) {
  WorkerProcess worker;
  Pipe requests = make_pipe(), events = make_pipe(), output = make_pipe(), failure = make_pipe();

  const std::string program = command.program.string();
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : command.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> environment = worker_environment(command.variables);

  const pid_t parent = getpid();
  const bool is_copied = command.body && may_be_copied();
  // Executing a program does not need a copy of this process's memory, which would take longer than
  // everything else here.
  const pid_t child = is_copied ? fork() : vfork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    int error = prepare_child(parent, *requests.read, *output.write, *events.write);
    if (error == 0 && is_copied) {
      close_inherited(0);  // when the pipe closes, the parent knows that the child has started
      environ = const_cast<char**>(environment.data());
      _exit(command.body(command.arguments));
    }
    if (error == 0) {
      close_inherited(CLOSE_RANGE_CLOEXEC);
      execve(program.c_str(), arguments.data(), environment.data());
      error = errno;
    }
    [[maybe_unused]] const auto written = ::write(*failure.write, &error, sizeof error);
    _exit(127);
  }
  worker.pid_.value = child;
  setpgid(child, child);  // both processes do this, so it is done no matter which one runs first
  requests.read.close();
  events.write.close();
  output.write.close();
  failure.write.close();

  int error = 0;  // exec closes the pipe, so reading nothing means success
  ssize_t size;
  while ((size = ::read(*failure.read, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (size == sizeof error) {
    const std::string message = "cannot start '" + program + "': " + std::strerror(error);
    if (command.is_hosted)
      return Diagnostic{
          ErrorCode::kNoPython, {}, "", message, "python=PATH selects another interpreter"};
    return Diagnostic{ErrorCode::kWorkerMissing, {}, "", message, "install both programs together"};
  }
  for (Descriptor* end : {&requests.write, &events.read, &output.read}) make_nonblocking(*end);
  worker.requests_ = std::move(requests.write);
  worker.events_ = std::move(events.read);
  worker.output_ = std::move(output.read);
  // SIGCHLD alone is not enough: a thread older than the SignalSource, such as a GPU driver's, may
  // receive it and ignore it.
  worker.end_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (pid_.value == 0) return;
  signal(SIGKILL);
  while (waitpid(pid_.value, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void WorkerProcess::send(std::string_view line) {
  unsent_ += line;
  unsent_ += '\n';
  write_requests();
}

void WorkerProcess::end_input() {
  input_ends_ = true;
  write_requests();
}

void WorkerProcess::signal(int number) {
  if (pid_.value != 0) kill(number == SIGKILL ? -pid_.value : pid_.value, number);
}

void WorkerProcess::signal_group(int number) {
  if (pid_.value != 0) kill(-pid_.value, number);
}

WorkerProcess::Watched WorkerProcess::watched() const {
  return {pollfd{unsent_.empty() ? -1 : *requests_, POLLOUT, 0}, pollfd{*events_, POLLIN, 0},
          pollfd{*output_, POLLIN, 0}, pollfd{*end_, POLLIN, 0}};
}

void WorkerProcess::serve(const Watched& ready, std::vector<WorkerNews>& news) {
  if (ready[0].revents) write_requests();
  if (ready[1].revents) read_events(news);
  if (ready[2].revents) read_output(news);
  if (ready[3].revents) collect(news);
}

void WorkerProcess::write_requests() {
  while (sent_ < unsent_.size() && requests_.is_open()) {
    const ssize_t size = ::write(*requests_, unsent_.data() + sent_, unsent_.size() - sent_);
    if (size > 0) sent_ += size;
    else if (errno == EAGAIN) return;
    else if (errno != EINTR)
      requests_.close();  // the worker has stopped reading; its exit will
                          // say why
  }
  unsent_.clear();
  sent_ = 0;
  if (input_ends_) requests_.close();
}

void WorkerProcess::read_events(std::vector<WorkerNews>& news) {
  char piece[kPiece];
  const ssize_t size = ::read(*events_, piece, sizeof piece);
  if (size < 0) return;
  if (size == 0) return events_.close();
  std::string_view text(piece, size);
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    partial_line_ += text.substr(0, end);
    news.push_back(EventLine{std::move(partial_line_)});
    partial_line_.clear();
  }
  partial_line_ += text;
  if (partial_line_.size() <= kMaxLine) return;
  news.push_back(OverlongLine{});
  partial_line_.clear();
  events_.close();
}

void WorkerProcess::read_output(std::vector<WorkerNews>& news) {
  char piece[kPiece];
  const ssize_t size = ::read(*output_, piece, sizeof piece);
  if (size > 0) news.push_back(OutputText{std::string(piece, size)});
  else if (size == 0) output_.close();
}

void WorkerProcess::collect(std::vector<WorkerNews>& news) {
  siginfo_t info{};
  // The worker remains a zombie until collected, so its group id cannot be reused.
  if (pid_.value == 0 || waitid(P_PID, pid_.value, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return;
  kill(-pid_.value, SIGKILL);
  waitpid(pid_.value, nullptr, 0);
  pid_.value = 0;

  // The worker's last output is still in the pipes. A descendant may keep them open, so do not wait
  // for end of file.
  const auto has_more = [](const Descriptor& descriptor) {
    pollfd watched{*descriptor, POLLIN, 0};
    return descriptor.is_open() && poll(&watched, 1, 0) == 1 &&
           (watched.revents & (POLLIN | POLLHUP)) != 0;
  };
  while (has_more(events_)) read_events(news);
  while (has_more(output_)) read_output(news);
  for (Descriptor* end : {&requests_, &events_, &output_, &end_}) end->close();
  const bool is_exit = info.si_code == CLD_EXITED;
  news.push_back(WorkerExit{is_exit ? info.si_status : 0, is_exit ? 0 : info.si_status});
}

namespace {

bool is_ignored(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalSource::SignalSource() {
  struct sigaction action {};
  // The exit of a child must be detected even if our parent ignores SIGCHLD.
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
  if (watched.front().revents) read_signals();  // the signals came before a worker's exit
  WorkerProcess::Watched own;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    std::copy_n(watched.begin() + 1 + static_cast<std::ptrdiff_t>(i * own.size()), own.size(),
                own.begin());
    std::vector<WorkerNews> news;
    workers_[i]->serve(own, news);
    take(*workers_[i], std::move(news));
  }
  return true;
}

void WorkerSet::take(WorkerProcess& worker, std::vector<WorkerNews> news) {
  for (WorkerNews& one : news) occurred_.push_back(NewsOf{&worker, std::move(one)});
}

void WorkerSet::read_signals() {
  while (const auto number = signals_.next()) {
    if (*number == SIGCHLD) {  // one signal may stand for several children
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

std::optional<int> SignalWait::operator()(std::chrono::steady_clock::duration time) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto occurred = nobody_.next(std::max(left, std::chrono::milliseconds(0)));
    const auto* const signal = std::get_if<SignalToUs>(&occurred);
    if (!signal) return std::nullopt;
    if (signal->number == SIGINT || signal->number == SIGTERM || signal->number == SIGHUP)
      return signal->number;
  }
}

}  // namespace runner
