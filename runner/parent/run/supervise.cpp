#include "runner/parent/run/supervise.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr auto kGrace = 10s;  // time for a worker that has finished to exit
constexpr int kCannotLoad =
    127;  // the dynamic loader's exit code if it cannot find a program's libraries

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

/// Returns advice for signals that a program causes itself; empty for external signals.
/// `is_hosted` is true if the worker runs in the user's Python.
std::string advice_on(int number, bool is_hosted) {
  switch (number) {
    case SIGKILL:
      return "the operating system often does this when memory runs out (see `dmesg`): use a "
             "smaller batch, or more memory";
    case SIGXCPU:
      return "it reached the CPU time limit: raise it with `ulimit -t`";
    case SIGXFSZ:
      return "a file reached the file size limit: raise it with `ulimit -f`";
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSEGV:
    case SIGSYS:
    case SIGTRAP:
      if (!is_hosted) return "this is a bug in Retort";
      return "the recipe's Python code, one of its packages or Retort has crashed; -v or log.txt "
             "shows where Python was";
    default:
      return "";
  }
}

bool is_stop_signal(int number) {
  return number == SIGINT || number == SIGTERM || number == SIGHUP;
}

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

}  // namespace

std::optional<Milliseconds> sooner(std::optional<Milliseconds> one,
                                   std::optional<Milliseconds> other) {
  return one && other ? std::min(*one, *other) : one ? one : other;
}

/// The conversation with one worker, from its greeting to its end.
class Supervision::Dialogue {
 public:
  Dialogue(WorkerProcess& worker, const WorkerCommand& command, Json request,
           Conversation conversation, OnEnd on_end)
      : worker_(worker),
        interpreter_(command.is_hosted ? command.program.string() : ""),
        grace_(command.grace),
        request_(std::move(request)),
        conversation_(std::move(conversation)),
        on_end_(std::move(on_end)) {}

  const WorkerProcess& worker() const { return worker_; }
  bool has_ended() const { return end_.has_value(); }
  void report_end() const {
    if (on_end_) on_end_(ending());
  }

  void take(const WorkerNews& news) {
    std::visit(
        Overloaded{
            [&](const EventLine& line) { hear(line.text); },
            [&](const OverlongLine&) { give_up(protocol_error("a line of more than 16 MiB")); },
            [&](const OutputText& output) {
              if (!interpreter_.empty() && !greeted_) keep(output.text);
              if (conversation_.on_output) conversation_.on_output(output.text);
            },
            [&](const WorkerExit& end) { end_ = end; },
        },
        news);
  }

  void kill() {
    if (!end_) worker_.signal(SIGKILL);
  }

  void handle_signal(int number) {
    if (!conversation_.obeys_signals) {
      if (is_stop_signal(number) && conversation_.on_stop) conversation_.on_stop(number);
      return;
    }
    if (number == SIGWINCH) {
      if (conversation_.on_resize) conversation_.on_resize();
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      // Before its greeting, a worker has nothing to save and would not understand the signal.
      if (greeted_) worker_.signal(SIGUSR2);
    } else if (stop_signal_ == 0) {
      stop_signal_ = number;
      worker_.signal(number);
      if (grace_ > Milliseconds::zero() && !finished_) deadline_ = Clock::now() + grace_;
    } else if (number == SIGINT) {
      worker_.signal(SIGKILL);
    }
  }

  /// Kills a worker that is past its deadline. Returns the maximum time until the next call.
  std::optional<Milliseconds> tick() {
    const auto wanted = conversation_.tick ? conversation_.tick() : std::nullopt;
    if (!deadline_) return wanted;
    const auto left = std::chrono::ceil<Milliseconds>(*deadline_ - Clock::now());
    if (left > Milliseconds::zero()) return sooner(wanted, left);
    worker_.signal(SIGKILL);
    was_deaf_ = !finished_;
    deadline_.reset();
    return wanted;
  }

 private:
  static Diagnostic protocol_error(const std::string& what) {
    return {ErrorCode::kProtocol,
            {},
            "",
            "the worker sent an invalid message: " + what,
            "this is a bug in Retort"};
  }

  void give_up(Diagnostic error) {
    errors_.push_back(std::move(error));
    gave_up_ = true;
    worker_.signal(SIGKILL);
  }

  void hear(const std::string& line) {
    if (gave_up_) return;
    std::optional<Event> event;
    try {
      event = event_from_line(line);
    } catch (const std::runtime_error& error) {
      return give_up(protocol_error(error.what()));
    }
    const auto* hello = std::get_if<Hello>(&*event);
    if (!greeted_ && !hello) return give_up(protocol_error("its first event is not a hello"));
    if (greeted_ && hello) return give_up(protocol_error("a second hello"));
    if (finished_) return give_up(protocol_error("an event after its last one"));
    if (hello) return greet(*hello);
    const auto* finished = std::get_if<Finished>(&*event);
    if (!finished) return conversation_.on_event(*event, worker_);
    finished_ = finished->exit;
    deadline_ = Clock::now() + kGrace;
  }

  void greet(const Hello& hello) {
    greeted_ = true;
    if (hello.protocol != kProtocolVersion || hello.build != build_id()) {
      return give_up({ErrorCode::kWorkerMismatch,
                      {},
                      "",
                      "this is retort " + std::string(build_id()) + " (protocol " +
                          std::to_string(kProtocolVersion) + "), but its worker is " + hello.build +
                          " (protocol " + std::to_string(hello.protocol) + ")",
                      "build or install both programs together"});
    }
    if (conversation_.on_hello) conversation_.on_hello(hello);
    worker_.send(request_.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  Ending ending() const {
    if (gave_up_) return {.exit = exit_code(errors_), .errors = errors_};
    const bool would_go_on = finished_ == static_cast<int>(ExitCode::kNeedsAnotherDevice) ||
                             finished_ == static_cast<int>(ExitCode::kDeviceLost);
    if (finished_ && !(would_go_on && stop_signal_))
      return {.exit = static_cast<ExitCode>(*finished_)};
    if (stop_signal_)  // the worker did not report what it had saved
      return {.exit = exit_code_of_stop(stop_signal_, /*has_saved=*/false), .was_deaf = was_deaf_};
    Ending result{.errors = {death()}};
    result.exit = exit_code(result.errors);
    if (end_->signal) result.killed_by = end_->signal;
    return result;
  }

  void keep(std::string_view text) {
    constexpr std::size_t kMost = 64 << 10;
    first_words_ += text;
    if (first_words_.size() > kMost) first_words_.erase(0, first_words_.size() - kMost);
  }

  /// Returns why the interpreter exited: the host's own error or, if there is none, the last line
  /// printed, which in a traceback is the exception.
  std::string reason_of_host() const {
    constexpr std::string_view kMark = "retort_host: error: ";
    std::string last;
    for (std::size_t begin = 0; begin < first_words_.size();) {
      const std::size_t end = std::min(first_words_.find('\n', begin), first_words_.size());
      const std::string line = first_words_.substr(begin, end - begin);
      if (line.starts_with(kMark)) return line.substr(kMark.size());
      if (line.find_first_not_of(" \t\r") != line.npos) last = line;
      begin = end + 1;
    }
    if (!last.empty()) return last;
    return end_->signal ? "it was killed by " + signal_name(end_->signal)
                        : "it exited with code " + std::to_string(end_->exit);
  }

  Diagnostic death() const {
    if (!interpreter_.empty() && !greeted_ && end_->signal != SIGKILL)
      return {ErrorCode::kNoPython,
              {},
              "",
              "'" + interpreter_ + "' cannot host the worker: " + printable(reason_of_host()),
              "the worker needs torch " RETORT_LIBTORCH_VERSION
              " there; python=PATH selects another interpreter"};
    Diagnostic error{ErrorCode::kWorkerDied, {}, "", "", ""};
    if (end_->signal == 0) {
      error.message =
          "the worker exited with code " + std::to_string(end_->exit) + " before it had finished";
      if (end_->exit == kCannotLoad && !greeted_)
        error.help =
            "its libraries could not be loaded; in a virtual environment, run `pip install "
            "'" RETORT_TORCH_REQUIREMENT "'`";
      else if (!interpreter_.empty())
        error.help = "find out whether the recipe's Python code ends the process, as os._exit does";
      return error;
    }
    error.message = "the worker was killed by signal " + std::to_string(end_->signal) + " (" +
                    signal_name(end_->signal) + ")";
    error.help = advice_on(end_->signal, !interpreter_.empty());
    return error;
  }

  WorkerProcess& worker_;
  const std::string interpreter_;  // empty: the worker is a separate program
  const Milliseconds grace_;
  const Json request_;
  const Conversation conversation_;
  const OnEnd on_end_;
  bool greeted_ = false;
  bool gave_up_ = false;
  bool was_deaf_ = false;
  std::string first_words_;  // output of an interpreter before its greeting
  int stop_signal_ = 0;
  std::optional<int> finished_;
  // Deadline for a worker that has finished, or was asked to stop, to exit.
  std::optional<Clock::time_point> deadline_;
  std::optional<WorkerExit> end_;
  Diagnostics errors_;
};

Supervision::Supervision() = default;
Supervision::~Supervision() = default;

Diagnostics Supervision::start(const WorkerCommand& command, Json request,
                               Conversation conversation, OnEnd on_end) {
  if (stop_signal_) return {stopped_by(*stop_signal_)};
  const auto worker = workers_.start(command);
  if (!worker) return worker.errors();
  request["log"] = name(command.log);
  dialogues_.push_back(std::make_unique<Dialogue>(**worker, command, std::move(request),
                                                  std::move(conversation), std::move(on_end)));
  return {};
}

void Supervision::run() {
  while (!dialogues_.empty()) {
    std::visit(Overloaded{
                   [&](const NewsOf& one) { take(one); },
                   [&](const SignalToUs& signal) { handle_signal(signal.number); },
                   [](const Timeout&) {},
               },
               workers_.next(tick()));
  }
}

void Supervision::kill_others() {
  for (const auto& dialogue : dialogues_) dialogue->kill();
}

void Supervision::take(const NewsOf& one) {
  const auto found = std::ranges::find_if(
      dialogues_, [&](const auto& dialogue) { return &dialogue->worker() == one.worker; });
  if (found == dialogues_.end()) return;
  Dialogue* const dialogue = found->get();
  dialogue->take(one.news);
  if (!dialogue->has_ended()) return;
  // `found` may be invalid, because callbacks may have started workers; report_end() may start
  // more.
  const auto ended = std::ranges::find(dialogues_, dialogue, &std::unique_ptr<Dialogue>::get);
  const std::unique_ptr<Dialogue> last = std::move(*ended);
  dialogues_.erase(ended);
  last->report_end();
  workers_.remove(last->worker());
}

void Supervision::handle_signal(int number) {
  if (is_stop_signal(number) && !stop_signal_) stop_signal_ = number;
  for (const auto& dialogue : dialogues_) dialogue->handle_signal(number);
}

std::optional<std::chrono::milliseconds> Supervision::tick() {
  std::optional<Milliseconds> soonest;
  for (const auto& dialogue : dialogues_) soonest = sooner(soonest, dialogue->tick());
  return soonest;
}

Result<Ending> supervise(const WorkerCommand& command, Json request, Conversation conversation) {
  Ending ending;
  Supervision supervision;
  Diagnostics errors = supervision.start(command, std::move(request), std::move(conversation),
                                         [&](const Ending& end) { ending = end; });
  if (!errors.empty()) return errors;
  supervision.run();
  return ending;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

}  // namespace runner
