#include "runner/run/supervise.h"

#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr auto kGrace = 10s;  // for a worker that has finished but does not go

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

ExitCode exit_code_of_signal(int number) { return number == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated; }

class Supervisor {
 public:
  Supervisor(WorkerProcess& worker, const Json& request, const Conversation& conversation)
      : worker_(worker), request_(request), conversation_(conversation) {}

  Ending run() {
    while (!ended_) {
      const auto wanted = conversation_.tick ? conversation_.tick() : std::nullopt;
      const auto timeout = finished_ ? std::optional<std::chrono::milliseconds>(kGrace) : wanted;
      std::visit(Overloaded{
                     [&](const EventLine& line) { hear(line.text); },
                     [&](const LineTooLong&) { give_up(protocol_error("a line of more than 16 MiB")); },
                     [&](const OutputText& output) {
                       if (conversation_.on_output) conversation_.on_output(output.text);
                     },
                     [&](const Signalled& signal) { heed(signal.number); },
                     [&](const Ended& end) { ended_ = end; },
                     [&](const TimedOut&) {
                       if (finished_) worker_.signal(SIGKILL);
                     },
                 },
                 worker_.next(timeout));
    }
    return ending();
  }

 private:
  static Diagnostic protocol_error(const std::string& what) {
    return {ErrorCode::kProtocol,
            {},
            "",
            "the worker said something that cannot be understood: " + what,
            "please report it"};
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
    if (!greeted_ && !hello) return give_up(protocol_error("its first event is no hello"));
    if (greeted_ && hello) return give_up(protocol_error("a second hello"));
    if (finished_) return give_up(protocol_error("an event after the last"));
    if (hello) return greet(*hello);
    if (const auto* finished = std::get_if<Finished>(&*event)) finished_ = finished->exit;
    else conversation_.on_event(*event, worker_);
  }

  void greet(const Hello& hello) {
    greeted_ = true;
    if (hello.protocol != kProtocolVersion || hello.build != build_id()) {
      return give_up({ErrorCode::kWorkerMismatch,
                      {},
                      "",
                      "this is retort " + std::string(build_id()) + " (protocol " + std::to_string(kProtocolVersion) +
                          "), but its worker is " + hello.build + " (protocol " + std::to_string(hello.protocol) + ")",
                      "build or install both programs together"});
    }
    if (conversation_.on_hello) conversation_.on_hello(hello);
    worker_.send(request_.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  void heed(int number) {
    if (number == SIGWINCH) {
      if (conversation_.on_resize) conversation_.on_resize();
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      if (greeted_)
        worker_.signal(SIGUSR2);  // before, there is nothing to save and nobody who would know what is meant
    } else if (stop_signal_ == 0) {
      stop_signal_ = number;
      worker_.signal(number);
    } else if (number == SIGINT) {
      worker_.signal(SIGKILL);
    }
  }

  Ending ending() const {
    Ending result;
    result.errors = errors_;
    if (gave_up_) {
      result.exit = exit_code(errors_);
      return result;
    }
    if (finished_) {
      const bool was_stopped = *finished_ == static_cast<int>(ExitCode::kInterrupted) ||
                               *finished_ == static_cast<int>(ExitCode::kTerminated);
      result.interrupted = was_stopped || *finished_ == static_cast<int>(ExitCode::kStoppedAfterSave);
      result.exit = was_stopped && stop_signal_ ? exit_code_of_signal(stop_signal_) : static_cast<ExitCode>(*finished_);
      return result;
    }
    if (stop_signal_) {
      result.interrupted = true;
      result.exit = exit_code_of_signal(stop_signal_);
      return result;
    }
    result.errors.push_back(death());
    result.exit = exit_code(result.errors);
    if (ended_->signal) result.killed_by = ended_->signal;
    return result;
  }

  Diagnostic death() const {
    Diagnostic error{ErrorCode::kWorkerDied, {}, "", "", ""};
    if (ended_->signal == 0) {
      error.message = "the worker ended with exit code " + std::to_string(ended_->exit) + " before it was done";
      return error;
    }
    error.message =
        "the worker was killed by signal " + std::to_string(ended_->signal) + " (" + signal_name(ended_->signal) + ")";
    if (ended_->signal == SIGKILL) {
      error.help = "often the kernel has run out of memory (see `dmesg`): use a smaller batch, or more memory";
    } else if (ended_->signal != SIGTERM && ended_->signal != SIGINT) {
      error.help = "this is an error in Retort: please report it";
    }
    return error;
  }

  WorkerProcess& worker_;
  const Json& request_;
  const Conversation& conversation_;
  bool greeted_ = false;
  bool gave_up_ = false;
  int stop_signal_ = 0;
  std::optional<int> finished_;
  std::optional<Ended> ended_;
  Diagnostics errors_;
};

}  // namespace

Ending supervise(WorkerProcess& worker, const Json& request, const Conversation& conversation) {
  return Supervisor(worker, request, conversation).run();
}

Result<Json> ask_worker(const WorkerCommand& command, const Json& request, const Conversation& conversation) {
  SignalSource signals;
  auto worker = WorkerProcess::start(command, signals);
  if (!worker) return worker.errors();
  std::optional<Json> answer;
  Diagnostics errors;
  Conversation listening = conversation;
  listening.on_event = [&](const Event& event, WorkerProcess& process) {
    if (const auto* given = std::get_if<Answer>(&event)) answer = given->json;
    else if (const auto* reported = std::get_if<Reported>(&event)) errors.push_back(reported->diagnostic);
    else if (conversation.on_event) conversation.on_event(event, process);
  };
  const Ending ending = supervise(*worker, request, listening);
  errors.insert(errors.end(), ending.errors.begin(), ending.errors.end());
  if (ending.interrupted) errors.push_back({ErrorCode::kInterrupted, {}, "", "interrupted", ""});
  if (exit_code(errors) != ExitCode::kDone) return errors;
  if (answer) return *std::move(answer);
  return Diagnostic{ErrorCode::kProtocol, {}, "", "the worker gave no answer", "please report it"};
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

}  // namespace runner
