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
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/system_limit.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"
#include "runner/worker/executor.h"
#include "stages/machine/determinism.h"
#include "stages/machine/device.h"
#include "stages/machine/memory_meter.h"
#include "stages/machine/threads.h"
#include "stages/machine/user_variables.h"
#include "stages/plan/memory_budget.h"
#include "stages/python/python_host.h"
#include "stages/ranks/rank_group.h"
#include "stages/worker/determinism_check.h"
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

Diagnostic misunderstood(const std::string& what) {
  return {ErrorCode::kProtocol,
          {},
          "",
          "retort's request cannot be understood: " + what,
          "this is a bug in Retort"};
}

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

/// The additional options of `doctor determinism`: {"steps", "file", "compare"}; null if there are
/// none.
std::unique_ptr<DeterminismCheck> make_check(const Json& request) {
  const auto wish = request.find("check");
  if (wish == request.end()) return nullptr;
  try {
    const std::filesystem::path file = wish->at("file").get<std::string>();
    const std::int64_t steps = wish->at("steps");
    return wish->at("compare").get<bool>() ? DeterminismCheck::comparing(file, steps)
                                           : DeterminismCheck::writing(file, steps);
  } catch (const Json::exception&) {
    throw std::runtime_error("its 'check'");
  }
}

/// The additional options of `plan` and `certify`: {"device_model", "budget": {"bytes", "from"},
/// "alternatives", "certify"}, which a run lacks, and "strict".
runner::DryRunOptions dry_run_options(const Json& request) {
  try {
    runner::DryRunOptions dry{.device_model = request.value("device_model", ""),
                              .wants_alternatives = request.value("alternatives", false),
                              .wants_certificate = request.value("certify", false),
                              .is_strict = request.value("strict", false)};
    const auto budget = request.find("budget");
    if (budget != request.end() && !budget->is_null())
      dry.budget = {budget->at("from"), budget->at("bytes")};
    return dry;
  } catch (const Json::exception&) {
    throw std::runtime_error("what its plan is for");
  }
}

/// The plan and, for a device of this machine, its memory.
Json plan_json(const std::vector<runner::DryNode>& planned, const runner::DryRunOptions& dry,
               c10::Device device) {
  Json json = runner::to_json(planned);
  if (!dry.device_model.empty()) return json;
  const runner::NamedBytes memory = device_memory(device);
  json["memory"] = {{"name", memory.name}, {"bytes", memory.bytes}};
  return json;
}

/// "folder" of a run to resume, "plans" of one whose plans are reused, or "divisions" of one whose
/// data split is reused; empty: there is none.
std::filesystem::path folder_in(const Json& request, const char* key) {
  const Json folder = request.value(key, Json(""));
  if (!folder.is_string()) throw std::runtime_error("its '" + std::string(key) + "'");
  return folder.get<std::string>();
}

/// "restarts": {"plans", "retries", "has_moved"}, if this is not the first worker of its run.
runner::Restarts restarts_in(const Json& request) {
  const auto restarts = request.find("restarts");
  if (restarts == request.end()) return {};
  try {
    return {.plans = restarts->at("plans"),
            .retries = restarts->at("retries"),
            .has_moved = restarts->at("has_moved")};
  } catch (const Json::exception&) {
    throw std::runtime_error("its 'restarts'");
  }
}

/// "rank": this worker is one of the graph's ranks. A plan is that of the first, which has the
/// largest share. Other requests are for one worker.
runner::RankOfRun ranks_in(const Json& request, const runner::Graph& graph, bool is_plan) {
  const auto rank = request.find("rank");
  if (rank == request.end()) return {.size = is_plan ? graph.ranks : 1};
  if (!rank->is_number_integer() || *rank < 0 || *rank >= graph.ranks)
    throw std::runtime_error("its 'rank'");
  return {.rank = *rank, .size = graph.ranks};
}

/// Relative paths in the graph's options are relative to it.
void enter_working_folder(const Json& request) {
  const auto graph = request.find("graph");
  if (graph == request.end() || !graph->is_object()) return;
  const Json folder = graph->value("working_folder", Json(""));
  if (!folder.is_string()) throw std::runtime_error("its 'working_folder'");
  if (folder != "") std::filesystem::current_path(folder.get<std::string>());
}

/// What this worker was built with; where Python hosts it, also that Python and its packages.
Json all_versions() {
  Json all = versions();
  if (!has_python()) return all;
  try {
    all["python"] = call_python({{"do", "packages"}});
  } catch (const runner::StageError&) {  // the record does without them
  }
  return all;
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
  emit(runner::Hello{runner::kProtocolVersion, std::string(runner::build_id()), all_versions()});
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
  if (*name == "run" || *name == "plan") return run_or_plan(request);
  const auto kind =
      std::ranges::find(other_requests_, name->get_ref<const std::string&>(), &RequestKind::name);
  if (kind == other_requests_.end())
    return report({misunderstood("'" + name->get<std::string>() + "'")});
  return answer_other(*kind, request);
}

/// Runs a graph, or determines what a run would need.
ExitCode Worker::run_or_plan(const Json& request) {
  if (!request.contains("graph")) return report({misunderstood("no 'graph'")});
  start_log(request);
  runner::Graph graph = runner::graph_from_json(request["graph"]);
  const bool is_plan = request["request"] == "plan";
  runner::RankOfRun ranks = ranks_in(request, graph, is_plan);
  if (ranks.rank > 0) graph = runner::only_trainings(graph);
  share_host_memory(ranks.size);
  const runner::Determinism determinism_asked_for = graph.determinism;
  const runner::CheckpointSources trained =
      runner::checkpoint_sources_from_json(request.value("checkpoints", Json::object()));
  std::optional<runner::ReuseOptions> reuse;
  if (request.contains("index")) {
    reuse = {.index = request["index"].is_string() ? request["index"].get<std::string>() : "",
             .which = runner::reuse_named(request.value("reuse", "cacheable"))};
  }
  const auto is_set = [&](const char* key) {
    return request.contains(key) && request[key] == true;
  };

  if (has_python()) set_stop([this] { return is_stopped(); });
  const runner::DryRunOptions dry = dry_run_options(request);
  Diagnostics errors;
  const auto device = dry.device_model.empty()
                          ? choose_device(graph.device, find_gpus())
                          : runner::Result<c10::Device>(c10::Device(c10::kCUDA, 0));
  if (!device) errors = device.errors();
  else if (ranks.size > 1 && device->is_cuda())
    errors.push_back({ErrorCode::kOptionConflict,
                      {},
                      "/device/count",
                      "device.count is " + std::to_string(ranks.size) +
                          ", but this machine has a GPU, which device.select: auto takes: several "
                          "processes train together on a CPU only",
                      "set device.select: cpu, or device.count: 1"});
  int threads = 1;
  try {
    threads = use_threads(graph.threads, ranks.size);
  } catch (const runner::StageError& error) {
    return report({{error.code, {}, error.option, error.what(), error.help}});
  }
  for (Diagnostic& found : check_user_variables(threads)) {
    if (found.severity == runner::Severity::kError) errors.push_back(std::move(found));
    else emit(runner::Reported{std::move(found)});
  }
  CublasWorkspace workspace;
  const bool may_compute = !is_plan || (has_python() && dry.device_model.empty());
  if (device && device->is_cuda() && may_compute)
    workspace = use_cublas_workspace(graph.determinism);
  if (workspace.complaint && workspace.complaint->severity == runner::Severity::kError)
    errors.push_back(*workspace.complaint);
  else if (workspace.complaint) emit(runner::Reported{*workspace.complaint});
  std::string node;  // the running node
  const ScopedDeterminism determinism(graph.determinism, [&](const std::string& operation) {
    emit(runner::Reported{{ErrorCode::kNotDeterministic,
                           {},
                           "/determinism",
                           (node.empty() ? "the plan's real steps" : node) + ": " +
                               runner::nondeterminism_text(operation) + " on this device",
                           "the same recipe may give different bits the next time",
                           {},
                           runner::Severity::kWarning}});
  });
  const std::unique_ptr<DeterminismCheck> check = make_check(request);
  MemoryMeter meter(device && !is_plan ? *device : c10::Device(c10::kCPU));
  const auto emit_with_memory = [&](runner::Event event) {
    if (const auto* started = std::get_if<runner::NodeStarted>(&event)) node = started->node;
    if (std::holds_alternative<runner::Resumed>(event)) has_saved_ = true;
    if (auto* at = std::get_if<runner::NodeProgress>(&event)) {
      at->progress.memory_bytes = meter.in_use();
      at->progress.budget_bytes = meter.budget();
    }
    emit(event);
  };
  const auto has_difference = [&] { return check && check->has_difference(); };
  runner::Executor executor(
      std::move(graph), kinds_,
      {.emit = emit_with_memory,
       .is_cancelled = [&] { return is_stopped() || has_difference(); },
       .debug =
           [this](const std::string& node, std::string_view line) {
             log_.write({.level = runner::LogLevel::kDebug, .node = node, .text = line});
           },
       .take_save_request = [this] { return signals_.save.exchange(false); },
       .sync_metrics = [this](const std::string& node) { sync_metrics(node); },
       .on_failure =
           [&](const std::string& at_work, const std::exception& error) {
             if (is_device_lost(error)) leave_lost_device(at_work, error);
           },
       .measure_peak_live = [&meter] { return meter.peak_since_last(); },
       .text_of_first =
           [&ranks](const std::string& own) {
             RankGroup* const group = group_of(ranks);
             return group ? group->text_of_first(own) : own;
           }});
  const Diagnostics found = executor.create();
  errors.insert(errors.end(), found.begin(), found.end());
  if (!errors.empty()) return report(errors);
  log_machine(log_, *device, threads);
  if (reuse) {
    reuse->world = {{"device", device->is_cuda() ? "cuda" : "cpu"},
                    {"threads", threads},
                    {"determinism", runner::name(determinism_asked_for)},
                    {"libtorch", versions()["libtorch"]}};
  }
  const runner::Restarts restarts = restarts_in(request);
  const Diagnostics unfit = executor.plan({.smoke = is_set("smoke"),
                                           .ranks = ranks,
                                           .resume = is_set("resume"),
                                           .trained = trained,
                                           .reuse = reuse,
                                           .restarts = restarts,
                                           .resumed = folder_in(request, "folder"),
                                           .cache = runner::cache_folder(),
                                           .plans = folder_in(request, "plans"),
                                           .divisions = folder_in(request, "divisions"),
                                           .accepts_changes = is_set("accepts_changes")},
                                          dry,
                                          /*strict=*/is_plan, device->str());
  for (const runner::DryNode& node : executor.planned()) {
    log_.write(
        {.level = runner::LogLevel::kDebug, .node = node.node, .text = "plan: " + log_text(node)});
  }
  if (is_stopped()) throw runner::Cancelled{};
  if (is_plan) emit(runner::Answer{plan_json(executor.planned(), dry, *device)});
  if (is_plan || !unfit.empty()) return report(unfit);

  Json variables = Json::object();
  if (workspace.set) variables["CUBLAS_WORKSPACE_CONFIG"] = *workspace.set;
  emit(runner::Ready{device->str(), threads, variables});
  const Json go = next_request().value("go", Json());
  const Json folder = go.is_object() ? go.value("folder", Json()) : Json();
  if (!folder.is_string()) return report({misunderstood("no folder to go to")});
  const std::filesystem::path record = folder.get<std::string>();
  const std::filesystem::path path =
      ranks.rank > 0 ? runner::RunLayout(record).rank(ranks.rank) : record;
  std::unique_ptr<RankGroup> group;
  if (ranks.size > 1) {
    group = RankGroup::meet(ranks.rank, ranks.size, go.at("meeting").get<std::string>());
    ranks.peers = group.get();
  }
  const auto lock = runner::RunLock::join(record);
  if (!lock) return report(lock.errors());
  set_log_of_run();
  ExitCode exit = ExitCode::kDone;
  try {
    exit = executor.run({.folder = path,
                         .smoke = is_set("smoke"),
                         .observer = check.get(),
                         .ranks = ranks,
                         .first_folder = ranks.rank > 0 ? record : std::filesystem::path(),
                         .resume = is_set("resume"),
                         .trained = trained,
                         .reuse = reuse,
                         .restarts = restarts,
                         .cache = runner::cache_folder(),
                         .plans = folder_in(request, "plans"),
                         .divisions = folder_in(request, "divisions"),
                         .accepts_changes = is_set("accepts_changes")},
                        device->str());
  } catch (const runner::Cancelled&) {
    if (is_stopped() || !has_difference()) throw;
  }
  if (!check || (exit != ExitCode::kDone && !has_difference())) return exit;
  emit(runner::Answer{check->finish()});
  return ExitCode::kDone;
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
