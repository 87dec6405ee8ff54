#include "stages/python/reader_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "stages/python/python_host.h"

namespace stages {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRequests = 3, kReplies = 4, kWorker = 5;  // in the reader
constexpr int kFirstFree = 10;  // pipe ends get higher numbers than those used in a reader
constexpr int kTick = 100;      // milliseconds between checks for other events
constexpr std::chrono::seconds kGrace{1};  // time to finish the current sample when the run stops
constexpr int kPipeBytes = 1 << 20;        // large enough for most image samples

void check_call(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

struct Ends {
  runner::Descriptor read, write;
};

Ends made_pipe() {
  std::array<int, 2> ends;
  check_call(pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  const runner::Descriptor low_read(ends[0]), low_write(ends[1]);
  Ends result{runner::Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstFree)),
              runner::Descriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree))};
  check_call(result.read.is_open() && result.write.is_open() ? 0 : errno, "pipe");
  return result;
}

/// This process's environment, with variables set so that all readers behave the same.
class ReaderEnvironment {
 public:
  ReaderEnvironment() {
    for (char** variable = environ; *variable; ++variable) {
      const std::string_view text = *variable;
      const auto replaces = [&](const char* change) {
        const std::string_view whole = change;
        return text.starts_with(whole.substr(0, whole.find('=') + 1));
      };
      if (std::ranges::none_of(kChanges, replaces)) variables_.push_back(*variable);
    }
    for (const char* change : kChanges) variables_.push_back(const_cast<char*>(change));
    variables_.push_back(nullptr);
  }
  char* const* variables() const { return variables_.data(); }

 private:
  static constexpr std::array kChanges = {"PYTHONHASHSEED=0",
                                          "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1",
                                          "MKL_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"};
  std::vector<char*> variables_;
};

/// The file actions and attributes for posix_spawn.
class SpawnOptions {
 public:
  SpawnOptions() {
    check_call(posix_spawn_file_actions_init(&actions_), "posix_spawn");
    check_call(posix_spawnattr_init(&attributes_), "posix_spawn");
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &standard);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    check_call(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
               "posix_spawn");
  }
  ~SpawnOptions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  void give(const runner::Descriptor& end, int as) {
    check_call(posix_spawn_file_actions_adddup2(&actions_, *end, as), "posix_spawn");
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

ReaderProcess::ReaderProcess(const ReaderProgram& program) {
  Ends requests = made_pipe(), replies = made_pipe(), life = made_pipe();
  fcntl(*replies.write, F_SETPIPE_SZ, kPipeBytes);  // a smaller pipe is only slower
  SpawnOptions options;
  options.give(requests.read, kRequests);
  options.give(replies.write, kReplies);
  options.give(life.read, kWorker);
  const std::array arguments = {const_cast<char*>(program.interpreter.c_str()),
                                const_cast<char*>(program.script.c_str()),
                                static_cast<char*>(nullptr)};
  const ReaderEnvironment environment;
  check_call(posix_spawn(&pid_, program.interpreter.c_str(), options.actions(),
                         options.attributes(), arguments.data(), environment.variables()),
             "cannot start a process that reads samples");
  requests_ = std::move(requests.write);
  replies_ = std::move(replies.read);
  own_life_ = std::move(life.write);
}

ReaderProcess::~ReaderProcess() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ReaderProcess::send(const nlohmann::ordered_json& request) {
  const std::string line = request.dump() + '\n';
  asked_ = Clock::now();
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t size = ::write(*requests_, rest.data(), rest.size());
    if (size > 0) rest.remove_prefix(static_cast<std::size_t>(size));
    else if (errno != EINTR) report_lost();
  }
}

ReaderProcess::Reply ReaderProcess::reply(std::optional<std::chrono::seconds> limit) {
  limit_ = limit;
  constexpr std::size_t kHead = 1 + sizeof(std::uint64_t);
  std::array<char, kHead> head;
  receive(head.data(), head.size());
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, head.data() + 1, sizeof bytes);
  return {.has_failed = head[0] != 0, .bytes = bytes};
}

void ReaderProcess::receive(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    wait_for_bytes();
    const ssize_t size = ::read(*replies_, at, bytes);
    if (size > 0) {
      at += size;
      bytes -= static_cast<std::size_t>(size);
    } else if (size == 0 || errno != EINTR) {
      report_lost();
    }
  }
}

void ReaderProcess::wait_for_bytes() {
  std::optional<Clock::time_point> stopped;
  while (true) {
    pollfd watched{*replies_, POLLIN, 0};
    const int ready = poll(&watched, 1, kTick);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) check_call(errno, "poll");
    // Children of the reader may keep the pipe open.
    if (ready == 0 && has_ended()) report_lost();
    const auto now = Clock::now();
    if (!stopped && is_to_stop()) stopped = now;
    if (stopped && now - *stopped >= kGrace) throw runner::Canceled{};
    if (limit_ && now - asked_ >= *limit_)
      throw ReaderLost("did not answer within " + std::to_string(limit_->count()) + " s",
                       "raise loader.timeout, or find out what it is waiting for");
  }
}

bool ReaderProcess::has_ended() {
  if (pid_ != 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ == 0;
}

void ReaderProcess::report_lost() {
  // The pipe closes shortly before the process exits.
  for (int tries = 0; tries < 10 && !has_ended(); ++tries) poll(nullptr, 0, kTick);
  const std::string advice = "its output is in log.txt";
  if (pid_ != 0) throw ReaderLost("has closed the pipe to the worker", advice);
  if (WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL)
    throw ReaderLost("was killed by signal 9",
                     "the system kills processes when memory runs out: lower loader.workers, or "
                     "keep less data in memory");
  if (WIFSIGNALED(status_))
    throw ReaderLost("was killed by signal " + std::to_string(WTERMSIG(status_)), advice);
  throw ReaderLost("ended with exit code " + std::to_string(WEXITSTATUS(status_)), advice);
}

}  // namespace stages
