#include "runner/run/executor.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <optional>
#include <system_error>

#include "runner/config_reader.h"
#include "runner/run_context.h"

namespace runner {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kProgressInterval{100};

/// The world as one node sees it: everything becomes an event.
class NodeContext : public RunContext {
 public:
  NodeContext(const Node& node, const RunOptions& options, std::string_view device, const Executor::Emit& emit,
              const Executor::IsCancelled& is_cancelled, const Executor::Clock& clock)
      : node_(node),
        folder_(options.folder / "nodes" / node.id),
        smoke_(options.smoke),
        device_(device),
        emit_(emit),
        is_cancelled_(is_cancelled),
        clock_(clock) {}

  void metric(std::string_view name, double value, std::int64_t step) override {
    emit_(NodeMetric{node_.id, std::string(name), value, step});
  }
  void progress(const Progress& progress) override {
    const TimePoint now = clock_();
    const bool is_due = !last_progress_ || progress.phase != last_phase_ || now - *last_progress_ >= kProgressInterval;
    if (!is_due) return;
    last_progress_ = now;
    last_phase_ = progress.phase;
    emit_(NodeProgress{node_.id, progress});
  }
  void say(std::string_view line) override { emit_(Said{node_.id, std::string(line)}); }
  bool cancelled() const override { return is_cancelled_(); }
  std::uint64_t seed() const override { return node_.seed; }
  std::string_view device() const override { return device_; }
  const std::filesystem::path& folder() const override { return folder_; }
  bool smoke() const override { return smoke_; }

 private:
  const Node& node_;
  const std::filesystem::path folder_;
  const bool smoke_;
  const std::string device_;
  const Executor::Emit& emit_;
  const Executor::IsCancelled& is_cancelled_;
  const Executor::Clock& clock_;
  std::optional<TimePoint> last_progress_;
  std::string last_phase_;
};

/// A LibTorch exception carries a C++ backtrace in its text: the first line is for the user, the rest for the log,
/// which is where the worker's stderr goes.
std::string first_line_logging_rest(const char* what) {
  const std::string_view text = what;
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end < text.size()) std::fprintf(stderr, "%s\n", what);
  return std::string(text.substr(0, end));
}

/// LibTorch's own exception types cannot be named here, so its texts must do.
bool is_out_of_memory(std::string_view what) {
  return what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
}

Diagnostic out_of_memory(const Node& node, const std::string& detail) {
  return {ErrorCode::kOutOfMemory,
          {},
          node.pointer,
          "out of memory" + (detail.empty() ? "" : ": " + detail),
          "use a smaller memory.micro_batch, train.batch_size or model"};
}

/// The exception being handled, as an error at the node's place in the recipe.
Diagnostic current_exception_as_diagnostic(const Node& node) {
  try {
    throw;
  } catch (const StageError& error) {
    const std::string& stage = error.stage.empty() ? node.pointer : error.stage;
    return {error.code, {}, stage + error.option, error.what(), error.help};
  } catch (const std::bad_alloc&) {
    return out_of_memory(node, "");
  } catch (const std::system_error& error) {
    const bool is_full = error.code() == std::errc::no_space_on_device;
    return {is_full ? ErrorCode::kDiskFull : ErrorCode::kStageFailed,
            {},
            node.pointer,
            first_line_logging_rest(error.what()),
            is_full ? "make room, then run again" : ""};
  } catch (const std::exception& error) {
    const std::string line = first_line_logging_rest(error.what());
    if (is_out_of_memory(line)) return out_of_memory(node, line);
    return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
  } catch (...) {
    return {ErrorCode::kStageFailed, {}, node.pointer, "an exception of unknown type", ""};
  }
}

Result<std::unique_ptr<Stage>> create_stage(const Node& node, std::span<const StageKind* const> kinds) {
  const auto kind = std::ranges::find(kinds, node.kind, &StageKind::name);
  if (kind == kinds.end()) {
    return Diagnostic{ErrorCode::kNotBuiltYet,
                      {},
                      pointer_to(node.pointer, "kind"),
                      "this worker cannot run stages of kind '" + node.kind + "'",
                      "`retort stages` lists the kinds and says which can run"};
  }
  ConfigReader reader(node.options, node.pointer);
  try {
    auto stage = (*kind)->create(reader);
    if (!stage) return stage;
    // A stage that forgot to ask would let a mistake pass in silence.
    if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return stage;
  } catch (...) {
    return current_exception_as_diagnostic(node);
  }
}

bool same_complaint(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.pointer == b.pointer && a.message == b.message;
}

}  // namespace

/// What the nodes have put out and somebody still waits for.
class Executor::Artifacts {
 public:
  explicit Artifacts(const Graph& graph) : graph_(graph), ports_(graph.nodes.size()) {
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) ++ports_[edge.from][edge.output].waiting;
    }
  }

  /// The artifacts on the edges of `node`, no longer held here if it was the last to want them.
  Inputs take(const Node& node) {
    Inputs::ByPort inputs;
    for (const Edge& edge : node.inputs) {
      auto& port = ports_[edge.from].at(edge.output);
      if (port.artifact) inputs[edge.input].push_back(port.artifact);
      else if (!edge.optional) throw missing(edge);
      if (--port.waiting == 0) port.artifact.reset();
    }
    return Inputs(std::move(inputs));
  }

  /// Keeps those outputs of node `index` that are wanted. One may be absent, such as the test part of data without one.
  void put(std::size_t index, const Outputs& outputs) {
    for (auto& [name, port] : ports_[index]) {
      const auto found = outputs.find(name);
      if (found != outputs.end()) port.artifact = found->second;
    }
  }

 private:
  StageError missing(const Edge& edge) const {
    const bool is_data = edge.type == ArtifactType::kDataset;
    return {is_data ? ErrorCode::kTooFewSamples : ErrorCode::kStageFailed, "",
            "'" + graph_.nodes[edge.from].id + "' has no '" + edge.output + "', which this stage needs",
            is_data ? "give it a " + edge.output + " part, or take this stage away" : ""};
  }

  struct Port {
    ArtifactPtr artifact;
    int waiting = 0;
  };
  const Graph& graph_;
  std::vector<std::map<std::string, Port, std::less<>>> ports_;  // by node
};

Executor::Executor(Graph graph, std::span<const StageKind* const> kinds, Emit emit, IsCancelled is_cancelled,
                   MeasurePeak measure_peak, Clock clock)
    : graph_(std::move(graph)),
      kinds_(kinds),
      emit_(std::move(emit)),
      is_cancelled_(std::move(is_cancelled)),
      measure_peak_(std::move(measure_peak)),
      clock_(std::move(clock)) {}

Executor::~Executor() = default;

Diagnostics Executor::create() {
  Diagnostics errors;
  for (const Node& node : graph_.nodes) {
    auto stage = create_stage(node, kinds_);
    if (stage) {
      stages_.push_back(*std::move(stage));
      continue;
    }
    for (const Diagnostic& error : stage.errors()) {
      // The items of a foreach share their options, and so their mistakes.
      const bool is_known =
          std::ranges::any_of(errors, [&](const auto& known) { return same_complaint(known, error); });
      if (!is_known) errors.push_back(error);
    }
  }
  return errors;
}

ExitCode Executor::run(const RunOptions& options, std::string_view device) {
  assert(stages_.size() == graph_.nodes.size());
  Artifacts artifacts(graph_);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_cancelled_()) return ExitCode::kInterrupted;
    const ExitCode exit = run_node(i, artifacts, options, device);
    if (exit != ExitCode::kDone) return exit;
  }
  return ExitCode::kDone;
}

ExitCode Executor::run_node(std::size_t index, Artifacts& artifacts, const RunOptions& options,
                            std::string_view device) {
  const Node& node = graph_.nodes[index];
  // Freed on every way out, so that the next node finds the memory.
  const std::unique_ptr<Stage> stage = std::move(stages_[index]);
  const TimePoint start = clock_();
  measure_peak_();
  emit_(NodeStarted{node.id});
  try {
    NodeContext context(node, options, device, emit_, is_cancelled_, clock_);
    std::filesystem::create_directories(context.folder());
    artifacts.put(index, stage->run(artifacts.take(node), context));
  } catch (const Cancelled&) {
    return ExitCode::kInterrupted;
  } catch (...) {
    Diagnostic error = current_exception_as_diagnostic(node);
    if (node.id != node.stage) error.message = node.id + ": " + error.message;
    emit_(Reported{error});
    return info(error.code).exit;
  }
  // A stage may also heed a signal by returning early with what it has, which is no result to build on.
  if (is_cancelled_()) return ExitCode::kInterrupted;
  emit_(NodeFinished{node.id, std::chrono::duration<double>(clock_() - start).count(), measure_peak_()});
  return ExitCode::kDone;
}

}  // namespace runner
