#include "stages/worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/fault.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/system_limit.h"
#include "runner/shared/value/parse_json.h"
#include "stages/python/python_host.h"
#include "stages/worker/graph_request.h"
#include "stages/worker/machine_log.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;
using runner::ExitCode;

constexpr std::size_t kMaxRequest = 16 << 20;
constexpr std::size_t kReadPiece = 64 << 10;

WorkerSignals process_signals;  // a signal handler can only reach globals
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// The first signal counts, both here and in retort.
void ask_to_stop(int number) {
  int none = 0;
  process_signals.stop.compare_exchange_strong(none, number);
}

void ask_to_save(int) { process_signals.save = true; }

/// Handlers run on a stack of their own: a product that oneDNN has generated may point the stack
/// register into a buffer on the heap, and the frame of a handler would overwrite what lies below.
void give_handlers_a_stack() {
  alignas(64) static std::byte memory[64 << 10];
  const stack_t stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = sizeof memory};
  sigaltstack(&stack, nullptr);
}

/// Relative paths in the graph's options are relative to it.
void enter_working_folder(const Json& request) {
  const auto graph = request.find("graph");
  if (graph == request.end() || !graph->is_object()) return;
  const Json folder = graph->value("working_folder", Json(""));
  if (!folder.is_string()) throw std::runtime_error("its 'working_folder'");
  if (folder != "") std::filesystem::current_path(folder.get<std::string>());
}

/// Says which code of the user the graph may run, where Python hosts this worker.
void allow_python(const Json& request) {
  const auto graph = request.find("graph");
  if (!has_python() || graph == request.end() || !graph->is_object()) return;
  const runner::PythonCode code = runner::graph_from_json(*graph).python;
  call_python({{"do", "allow"}, {"files", code.files}, {"folders", code.folders}});
}

}  // namespace

WorkerSignals& watch_signals() {
  give_handlers_a_stack();
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  // Without SA_RESTART, so that a worker that waits for its next request wakes up.
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  action.sa_handler = ask_to_save;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (const int number : {SIGUSR1, SIGUSR2}) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  sigaction(SIGPIPE, &action, nullptr);
  return process_signals;
}

Worker::Worker(int requests, int events, std::span<const runner::StageKind* const> kinds,
               std::span<const RequestKind> other_requests, WorkerSignals& signals)
    : requests_(requests),
      events_(events),
      kinds_(kinds),
      other_requests_(other_requests),
      signals_(signals),
      log_(runner::Log::to_receiver(runner::LogLevel::kOff, [](const runner::LogLine&) {})) {}

ExitCode Worker::serve() {
  versions_ = all_versions();
  emit(runner::Hello{runner::kProtocolVersion, std::string(runner::build_id()), versions_});
  ExitCode exit;
  try {
    exit = answer(next_request());
  } catch (const runner::Cancelled&) {
    // Without a signal, retort has exited.
    exit =
        runner::exit_code_of_stop(signals_.stop != 0 ? signals_.stop.load() : SIGTERM, has_saved_);
  } catch (const runner::StageError& error) {
    exit = report({{error.code, {}, error.stage + error.option, error.what(), error.help}});
  } catch (const std::filesystem::filesystem_error& error) {
    exit = report({{ErrorCode::kStageFailed, {}, "", error.what(), ""}});
  } catch (const std::runtime_error& error) {
    exit = report({misunderstood(error.what())});
  }
  emit(runner::Finished{static_cast<int>(exit)});
  return exit;
}

ExitCode Worker::answer(const Json& request) {
  const auto protocol = request.find("protocol");
  if (protocol == request.end() || *protocol != runner::kProtocolVersion)
    return report({misunderstood("its protocol")});
  enter_working_folder(request);
  allow_python(request);
  const auto name = request.find("request");
  if (name == request.end() || !name->is_string()) return report({misunderstood("no 'request'")});
  if (*name == "run" || *name == "plan") {
    if (!request.contains("graph")) return report({misunderstood("no 'graph'")});
    start_log(request);
    return GraphRequest(*this, request).answer();
  }
  const auto kind =
      std::ranges::find(other_requests_, name->get_ref<const std::string&>(), &RequestKind::name);
  if (kind == other_requests_.end())
    return report({misunderstood("'" + name->get<std::string>() + "'")});
  return answer_other(*kind, request);
}

ExitCode Worker::answer_other(const RequestKind& kind, const Json& request) {
  start_log(request);
  log_worker(log_);
  const std::string name(kind.name);
  const RequestContext context{
      [&](const runner::Progress& progress) {
        emit(runner::NodeProgress{name, progress});
      },
      [&](std::string_view line) {
        emit(runner::Said{name, std::string(line)});
      },
      [this] { return is_stopped(); },
      [&](const Json& item) { emit(runner::Item{item}); },
  };
  try {
    auto answer = kind.answer(request, context);
    if (!answer) return report(answer.errors());
    emit(runner::Answer{*std::move(answer)});
    return ExitCode::kDone;
  } catch (const runner::StageError& error) {
    return report({{error.code, {}, error.option, error.what(), error.help}});
  } catch (const std::bad_alloc&) {
    return report({{ErrorCode::kOutOfMemory, {}, "", "out of memory", ""}});
  } catch (const std::system_error& error) {
    if (auto limit = runner::limit_reached(error.code(), error.what()))
      return report({*std::move(limit)});
    if (dynamic_cast<const std::filesystem::filesystem_error*>(&error))
      return report({runner::unexpected(error)});
    return report({{ErrorCode::kStageFailed, {}, "", error.what(), ""}});
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return report(
        {{ErrorCode::kStageFailed, {}, "", std::string(text.substr(0, text.find('\n'))), ""}});
  }
}

/// Exits without touching the device's memory any more, not even to free it.
void Worker::leave_lost_device(const std::string& node, const std::exception& error) {
  const std::string_view what = error.what();
  emit(runner::Said{node, "the device failed: " + std::string(what.substr(0, what.find('\n')))});
  emit(runner::Finished{static_cast<int>(ExitCode::kDeviceLost)});
  std::fprintf(stderr, "%s\n", error.what());
  std::fflush(nullptr);
  _exit(static_cast<int>(ExitCode::kDeviceLost));
}

ExitCode Worker::report(const Diagnostics& errors) {
  for (const Diagnostic& error : errors) emit(runner::Reported{error});
  return runner::exit_code(errors);
}

void Worker::emit(const runner::Event& event) {
  const std::string line = runner::to_line(event) + "\n";
  const std::lock_guard lock(emitting_);
  if (runner::reach(runner::Milestone::kEvent)) is_deaf_ = true;
  for (std::string_view left = line; !left.empty() && !is_deaf_;) {
    const ssize_t size = ::write(events_, left.data(), left.size());
    if (size >= 0) left.remove_prefix(size);
    else if (errno != EINTR) is_deaf_ = true;  // retort is gone: stop at the next step
  }
}

/// "log": the log level that retort wants, "info" if it is missing.
void Worker::start_log(const Json& request) {
  const Json wish = request.value("log", Json("info"));
  const auto level =
      wish.is_string() ? runner::log_level_named(wish.get<std::string>()) : std::nullopt;
  if (!level) throw std::runtime_error("its 'log'");
  log_ = runner::Log::to_receiver(*level, [this](const runner::LogLine& line) {
    emit(runner::Logged{line.level, std::string(line.node), std::string(line.text)});
  });
}

/// Waits until retort has written the reported metrics to disk; `node`, unless it is empty, saves
/// then.
void Worker::sync_metrics(const std::string& node) {
  emit(runner::Flush{node});
  if (!next_line(/*despite_signals=*/true).contains("flushed"))
    throw std::runtime_error("retort answered a flush with something else");
  has_saved_ = has_saved_ || !node.empty();
}

Json Worker::next_request() { return next_line(/*despite_signals=*/false); }

/// The next line as JSON. Throws Cancelled at the end of the input, since the client has gone, and,
/// unless `despite_signals`, when the work should stop.
Json Worker::next_line(bool despite_signals) {
  std::size_t searched = 0;
  while (despite_signals ? !is_deaf_ : !is_stopped()) {
    if (const std::size_t end = unread_.find('\n', searched); end != unread_.npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      Json json = runner::parse_json<Json>(line);
      if (!json.is_object()) throw std::runtime_error("not a JSON object");
      return json;
    }
    searched = unread_.size();
    if (searched > kMaxRequest) throw std::runtime_error("a line of more than 16 MiB");
    char piece[kReadPiece];
    const ssize_t size = ::read(requests_, piece, sizeof piece);
    if (size == 0 || (size < 0 && errno != EINTR)) break;
    if (size > 0) unread_.append(piece, size);
  }
  throw runner::Cancelled{};
}

}  // namespace stages
