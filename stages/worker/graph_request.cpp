#include "stages/worker/graph_request.h"

#include <stdexcept>
#include <utility>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/meeting.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/machine/device.h"
#include "stages/machine/gpu.h"
#include "stages/machine/threads.h"
#include "stages/machine/user_variables.h"
#include "stages/plan/memory_budget.h"
#include "stages/python/python_host.h"
#include "stages/ranks/rendezvous.h"
#include "stages/worker/machine_log.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;
using runner::ExitCode;

/// Reads the additional options of `doctor determinism`: {"steps", "file", "compare"}. Returns null
/// if there are none. Only rank 0 compares.
std::unique_ptr<DeterminismCheck> make_check(const Json& request, int rank) {
  const auto wanted = request.find("check");
  if (wanted == request.end()) return nullptr;
  try {
    const std::filesystem::path file = wanted->at("file").get<std::string>();
    const std::int64_t steps = wanted->at("steps");
    if (rank > 0) return DeterminismCheck::following(steps);
    return wanted->at("compare").get<bool>() ? DeterminismCheck::comparing(file, steps)
                                             : DeterminismCheck::writing(file, steps);
  } catch (const Json::exception&) {
    throw std::runtime_error("its 'check'");
  }
}

/// Reads the additional options of `lr-find`: {"first", "last", "steps"}. Returns null if there are
/// none.
std::unique_ptr<RangeTest> make_range_test(const Json& request) {
  const auto wanted = request.find("range_test");
  if (wanted == request.end()) return nullptr;
  try {
    return std::make_unique<RangeTest>(
        RangeTestOptions{wanted->at("first"), wanted->at("last"), wanted->at("steps")});
  } catch (const Json::exception&) {
    throw std::runtime_error("its 'range_test'");
  }
}

/// Reads the additional options of `plan` and `certify`: {"device_model", "budget": {"bytes",
/// "from"}, "alternatives", "certify"}, which a run request does not have, and "strict".
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
    throw std::runtime_error("its plan options");
  }
}

/// Returns the plans and, for a device of this machine, its memory.
Json plan_json(const std::vector<runner::DryNode>& planned, const runner::DryRunOptions& dry,
               c10::Device device) {
  Json json = runner::to_json(planned);
  if (!dry.device_model.empty()) return json;
  const runner::NamedBytes memory = device_memory(device);
  json["memory"] = {{"name", memory.name}, {"bytes", memory.bytes}};
  return json;
}

/// Returns a folder in the request: "folder" of a run to resume, "plans" of a run with plans to
/// reuse, or "divisions" of a run with a data division to reuse. Empty if there is none.
std::filesystem::path folder_in(const Json& request, const char* key) {
  const Json folder = request.value(key, Json(""));
  if (!folder.is_string()) throw std::runtime_error("its '" + std::string(key) + "'");
  return folder.get<std::string>();
}

/// Reads "restarts": {"plans", "retries", "has_moved"}, which is missing for a run's first worker.
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

/// Reads "rank", this worker's rank in the graph. A plan is made for rank 0, which has the largest
/// share. Other requests are for a single worker.
runner::RankOfRun ranks_in(const Json& request, const runner::Graph& graph, bool is_plan) {
  const auto rank = request.find("rank");
  if (rank == request.end()) return {.size = is_plan ? graph.ranks : 1};
  if (!rank->is_number_integer() || *rank < 0 || *rank >= graph.ranks)
    throw std::runtime_error("its 'rank'");
  return {.rank = *rank, .size = graph.ranks};
}

/// Reads where this worker meets the other ranks; nullopt if it is alone.
std::optional<runner::Meeting> meeting_in(const Json& request) {
  const auto meeting = request.find("meeting");
  if (meeting == request.end()) return {};
  return runner::meeting_from_json(*meeting);
}

bool is_set(const Json& request, const char* key) {
  return request.contains(key) && request[key] == true;
}

}  // namespace

Worker::GraphRequest::GraphRequest(Worker& worker, const Json& request)
    : worker_(worker),
      request_(request),
      is_plan_(request["request"] == "plan"),
      graph_(runner::graph_from_json(request["graph"])),
      determinism_asked_for_(graph_.determinism),
      ranks_(ranks_in(request, graph_, is_plan_)),
      meeting_(meeting_in(request)),
      dry_(dry_run_options(request)),
      check_(make_check(request, ranks_.rank)),
      range_test_(make_range_test(request)),
      trained_(runner::checkpoint_sources_from_json(request.value("checkpoints", Json::object()))),
      restarts_(restarts_in(request)) {
  if (request.contains("index")) {
    reuse_ = {.index = request["index"].is_string() ? request["index"].get<std::string>() : "",
              .which = runner::reuse_named(request.value("reuse", "cacheable"))};
  }
}

ExitCode Worker::GraphRequest::answer() {
  try {
    if (has_python()) set_stop([this] { return worker_.is_stopped(); });
    if (meeting_) meet();
    return prepare();
  } catch (const runner::StageError& error) {
    say_why({error.code, {}, "", error.what(), ""});
    throw;
  } catch (const runner::Canceled&) {
    say_why({ErrorCode::kInterrupted, {}, "", "it was stopped", ""});
    throw;
  }
}

ExitCode Worker::GraphRequest::prepare() {
  if (ranks_.rank > 0) graph_ = runner::only_trainings(graph_);
  const auto device = dry_.device_model.empty()
                          ? choose_device(graph_.device, find_gpus())
                          : runner::Result<c10::Device>(c10::Device(c10::kCUDA, 0));
  Diagnostics errors = set_up(device);
  const ScopedDeterminism determinism(graph_.determinism,
                                      [this](const std::string& operation) { warn_of(operation); });
  meter_.emplace(device && !is_plan_ ? *device : c10::Device(c10::kCPU));
  executor_.emplace(std::move(graph_), worker_.kinds_, world());
  const Diagnostics found = executor_->create();
  errors.insert(errors.end(), found.begin(), found.end());
  if (!errors.empty()) return report(errors);
  log_machine(worker_.log_, *device, threads_);
  return plan_and_run(*device);
}

/// Sets up the environment for computations on the device: threads, memory, cuBLAS.
Diagnostics Worker::GraphRequest::set_up(const runner::Result<c10::Device>& device) {
  Diagnostics errors = device ? Diagnostics() : device.errors();
  const int ranks_here = meeting_ ? meeting_->ranks_here : ranks_.size;
  share_host_memory(ranks_here);
  if (group_) limit_host_memory(group_->least(host_memory().bytes));
  if (group_ && device) agree_on(*device);
  const bool has_own_cores = meeting_ && meeting_->cores > 0 && !graph_.threads;
  threads_ =
      use_threads(has_own_cores ? std::optional(meeting_->cores) : graph_.threads, ranks_here);
  for (Diagnostic& found : check_user_variables(threads_)) {
    if (found.severity == runner::Severity::kError) errors.push_back(std::move(found));
    else worker_.emit(runner::Reported{std::move(found)});
  }
  const bool may_compute = !is_plan_ || (has_python() && dry_.device_model.empty());
  if (device && device->is_cuda() && may_compute)
    workspace_ = use_cublas_workspace(graph_.determinism);
  if (workspace_.complaint && workspace_.complaint->severity == runner::Severity::kError)
    errors.push_back(*workspace_.complaint);
  else if (workspace_.complaint) worker_.emit(runner::Reported{*workspace_.complaint});
  return errors;
}

void Worker::GraphRequest::meet() {
  group_ = meet_ranks(
      ranks_, *meeting_, traits_of(graph_, worker_.versions_),
      [this] { return worker_.is_stopped(); }, std::chrono::seconds(graph_.collective_timeout));
  ranks_.peers = group_.get();
}

/// Ranks make the same choices only on devices of the same model with the same memory.
void Worker::GraphRequest::agree_on(c10::Device device) {
  group_->require_same("the devices", device.is_cuda() ? gpu_model(device) : "cpu",
                       "use the same GPU model for all ranks, or device.select: cpu");
  if (!device.is_cuda()) return;
  group_->use_gpu(device);
  const auto uuid = gpu::properties(device).uuid;
  const at::Tensor all = group_->gather(torch::tensor({{uuid[0], uuid[1]}}, torch::kLong)).rows;
  const auto* const first = all.const_data_ptr<std::int64_t>();
  int sharing = 0;
  for (int rank = 0; rank < ranks_.size; ++rank)
    sharing += first[2 * rank] == uuid[0] && first[2 * rank + 1] == uuid[1];
  gpu_memory(device, sharing);
  group_->wait_for_all();
  set_gpu_memory(group_->least(gpu_memory(device, sharing)));
}

void Worker::GraphRequest::warn_of(const std::string& operation) {
  worker_.emit(runner::Reported{{ErrorCode::kNotDeterministic,
                                 {},
                                 "/determinism",
                                 (node_.empty() ? "the plan's real steps" : node_) + ": " +
                                     runner::nondeterminism_text(operation) + " on this device",
                                 "the same recipe may give slightly different results next time",
                                 {},
                                 runner::Severity::kWarning}});
}

/// Forwards an event, and records what this request needs from it.
void Worker::GraphRequest::pass(runner::Event event) {
  if (const auto* started = std::get_if<runner::NodeStarted>(&event)) node_ = started->node;
  if (std::holds_alternative<runner::Resumed>(event)) worker_.has_saved_ = true;
  if (const auto* reported = std::get_if<runner::Reported>(&event)) say_why(reported->diagnostic);
  if (auto* at = std::get_if<runner::NodeProgress>(&event)) {
    at->progress.memory_bytes = meter_->in_use();
    at->progress.budget_bytes = meter_->budget();
  }
  worker_.emit(event);
}

/// Informs the other ranks why this rank is about to exit.
void Worker::GraphRequest::say_why(const Diagnostic& error) {
  if (group_ && error.severity == runner::Severity::kError && error.code != ErrorCode::kRankLost)
    group_->say_why(error.message);
}

ExitCode Worker::GraphRequest::report(const Diagnostics& errors) {
  for (const Diagnostic& error : errors) say_why(error);
  return worker_.report(errors);
}

runner::ExecutorWorld Worker::GraphRequest::world() {
  return {.emit = [this](runner::Event event) { pass(std::move(event)); },
          .is_canceled = [this] { return worker_.is_stopped() || has_difference(); },
          .debug =
              [this](const std::string& node, std::string_view line) {
                worker_.log_.write({.level = runner::LogLevel::kDebug, .node = node, .text = line});
              },
          .take_save_request = [this] { return worker_.signals_.save.exchange(false); },
          .sync_metrics = [this](const std::string& node) { worker_.sync_metrics(node); },
          .on_failure =
              [this](const std::string& at_work, const std::exception& error) {
                if (is_device_lost(error)) worker_.leave_lost_device(at_work, error);
              },
          .measure_peak_live = [this] { return meter_->peak_since_last(); },
          .text_of_first =
              [this](const std::string& own) { return group_ ? group_->text_of_first(own) : own; }};
}

runner::RunOptions Worker::GraphRequest::options() const {
  return {.smoke = is_set(request_, "smoke"),
          .ranks = ranks_,
          .resume = is_set(request_, "resume"),
          .trained = trained_,
          .reuse = reuse_,
          .restarts = restarts_,
          .cache = runner::cache_folder(),
          .plans = folder_in(request_, "plans"),
          .divisions = folder_in(request_, "divisions"),
          .accepts_changes = is_set(request_, "accepts_changes")};
}

ExitCode Worker::GraphRequest::plan_and_run(c10::Device device) {
  if (reuse_) {
    reuse_->world = {{"device", device.is_cuda() ? "cuda" : "cpu"},
                     {"threads", threads_},
                     {"determinism", runner::name(determinism_asked_for_)},
                     {"libtorch", versions()["libtorch"]}};
  }
  runner::RunOptions planned = options();
  planned.ranks = {.size = ranks_.size};  // all plan for rank 0, so they make the same choices
  planned.resumed = folder_in(request_, "folder");
  const Diagnostics unfit = executor_->plan(planned, dry_, /*strict=*/is_plan_, device.str());
  for (const runner::DryNode& node : executor_->planned()) {
    worker_.log_.write(
        {.level = runner::LogLevel::kDebug, .node = node.node, .text = "plan: " + log_text(node)});
  }
  if (worker_.is_stopped()) throw runner::Canceled{};
  if (is_plan_) worker_.emit(runner::Answer{plan_json(executor_->planned(), dry_, device)});
  if (is_plan_ || !unfit.empty()) return report(unfit);
  return run(device);
}

ExitCode Worker::GraphRequest::run(c10::Device device) {
  Json variables = Json::object();
  if (workspace_.set) variables["CUBLAS_WORKSPACE_CONFIG"] = *workspace_.set;
  worker_.emit(runner::Ready{device.str(), threads_, variables});
  const Json go = worker_.next_request().value("go", Json());
  const Json folder = go.is_object() ? go.value("folder", Json()) : Json();
  if (!folder.is_string()) return report({misunderstood("it has no folder for the run")});
  const std::filesystem::path record =
      group_ ? group_->text_of_first(folder.get<std::string>()) : folder.get<std::string>();
  const std::filesystem::path own = folder_of_rank(record);
  const auto lock = runner::RunLock::join(record);
  if (!lock) return report(lock.errors());
  set_log_of_run();
  runner::RunOptions options = this->options();
  options.folder = own;
  options.observer = check_.get();
  if (range_test_) options.observer = range_test_.get();
  if (ranks_.rank > 0) options.first_folder = record;
  ExitCode exit = ExitCode::kDone;
  try {
    exit = executor_->run(options, device.str());
  } catch (const runner::Canceled&) {
    const bool is_tested = range_test_ && range_test_->has_begun();
    if (worker_.is_stopped() || !(has_difference() || is_tested)) throw;
  }
  if (range_test_ && exit == ExitCode::kDone) worker_.emit(runner::Answer{range_test_->answer()});
  if (!check_ || (exit != ExitCode::kDone && !has_difference())) return exit;
  worker_.emit(runner::Answer{check_->finish()});
  return ExitCode::kDone;
}

/// Returns the folder that only this rank writes to. Throws if it cannot see rank 0's record, since
/// all machines must share that folder.
std::filesystem::path Worker::GraphRequest::folder_of_rank(const std::filesystem::path& record) {
  if (ranks_.rank == 0) return record;
  std::error_code none;
  if (!std::filesystem::is_directory(record, none))
    throw runner::StageError(ErrorCode::kNoMeeting, "rank " + std::to_string(ranks_.rank) +
                                                        " cannot see the run's folder '" +
                                                        record.string() + "', which rank 0 created")
        .with_help("set run.dir to a folder that all machines share");
  std::filesystem::path own = runner::RunLayout(record).rank(ranks_.rank);
  worker_.emit(runner::Joined{own.string()});
  return own;
}

}  // namespace stages
