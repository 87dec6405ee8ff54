#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/worker/executor.h"
#include "runner/worker/reuse.h"
#include "tests/support/temporary_folder.h"

namespace runner {

/// Runs graphs of stages that record what they do.
class ReuseTest : public testing::Test {
 protected:
  /// The outside world as the stages find it, and the actions that they took, in order.
  static inline std::string world_outside;
  static inline std::vector<std::string> deeds;

  static std::string found_outside() { return world_outside == "nothing yet" ? "" : world_outside; }

  struct KeptNumber : Artifact {
    static constexpr auto kType = ArtifactType::kMetrics;
    explicit KeptNumber(std::int64_t value) : value(value) {}
    ArtifactType type() const override { return kType; }
    std::int64_t value;
  };

  /// Adds `plus` to its input and saves the sum in a file, which it reads back if allowed.
  class KeepingStage : public Stage {
   public:
    explicit KeepingStage(std::int64_t plus) : plus_(plus) {}
    std::string fingerprint() const override { return found_outside(); }
    bool uses_seed() const override { return false; }

    Outputs run(const Inputs& inputs, RunContext& context) override {
      const std::filesystem::path file = context.node().folder / "sum.safetensors";
      if (context.node().reuses) {
        std::int64_t kept = 0;
        if (std::ifstream(file) >> kept) {
          deeds.push_back("read");
          return {{"out", std::make_shared<KeptNumber>(kept)}};
        }
        context.not_reused("no number in it");
        EXPECT_FALSE(context.node().reuses);
        EXPECT_FALSE(std::filesystem::exists(file));
      }
      deeds.push_back("computed");
      std::int64_t sum = plus_;
      for (const auto& number : inputs.all<KeptNumber>("in")) sum += number->value;
      std::ofstream(file) << sum;
      std::filesystem::create_directories(context.node().folder / "notes");
      std::ofstream(context.node().folder / "notes/words.txt") << "how it went";
      context.metric("sum", static_cast<double>(sum), 1);
      return {{"out", std::make_shared<KeptNumber>(sum)}};
    }

   private:
    const std::int64_t plus_;
  };

  /// Outputs a number and writes no files.
  class Source : public Stage {
   public:
    explicit Source(std::int64_t plus) : plus_(plus) {}
    std::string fingerprint() const override { return found_outside(); }
    bool uses_seed() const override { return false; }
    Outputs run(const Inputs&, RunContext& context) override {
      deeds.push_back("source");
      if (world_outside == "nothing yet") world_outside = "made";
      if (world_outside == "steady") return {{"out", std::make_shared<KeptNumber>(plus_)}};
      if (world_outside == "about to change") world_outside = "changed";
      for (const char* port : {"out", "more"}) {
        if (context.node().wants(port)) deeds.push_back(std::string("wants ") + port);
      }
      return {{"out", std::make_shared<KeptNumber>(plus_)}};
    }

   private:
    const std::int64_t plus_;
  };

  /// A training node, as far as reuse is concerned.
  class Training : public Stage {
   public:
    explicit Training(std::int64_t) {}
    Outputs run(const Inputs& inputs, RunContext& context) override {
      const auto trained = context.node().trained;
      const std::filesystem::path weights = context.node().folder / "checkpoints/weights";
      if (trained && trained->reused && !std::filesystem::exists(trained->folder / "weights"))
        context.not_reused("no weights");
      if (context.node().trained) deeds.push_back("took " + trained->folder.filename().string());
      else {
        deeds.push_back(inputs.find<KeptNumber>("in") ? "trained" : "trained on nothing");
        std::filesystem::create_directories(weights.parent_path());
        std::ofstream(weights) << "weights";
        context.metric("loss", 0.5, 1);
      }
      return {{"out", std::make_shared<KeptNumber>(3)}};
    }
  };

  template <typename T>
  static Result<std::unique_ptr<Stage>> create(ConfigReader& reader) {
    std::int64_t plus = 0;
    reader.read("plus", plus);
    if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<Stage>(std::make_unique<T>(plus));
  }
  static inline const StageKind kKeeping{"test.keeping", create<KeepingStage>},
      kSource{"test.source", create<Source>}, kTraining{"train.test", create<Training>};
  static inline const StageKind* const kReusedKinds[] = {&kKeeping, &kSource, &kTraining};

  static Node kept_node(const std::string& id, const std::string& kind, std::int64_t plus,
                        std::vector<std::size_t> from = {}) {
    Node result{id, id, kind, {}, "/" + id, {}, 7};
    result.options = from_json({{"plus", plus}});
    result.cacheable = kind == "test.keeping";
    for (const std::size_t index : from)
      result.inputs.push_back({"in", index, "out", ArtifactType::kMetrics});
    return result;
  }

  ReuseTest() {
    world_outside = "steady";
    deeds.clear();
  }

  /// The nodes data → features → train → test.
  static std::vector<Node> chain(std::int64_t data = 1, std::int64_t features = 10) {
    return {kept_node("data", "test.source", data),
            kept_node("features", "test.keeping", features, {0}),
            kept_node("train", "train.test", 0, {1}),
            kept_node("test", "test.keeping_leaf", 100, {2})};
  }

  /// Runs `nodes` in the folder `name` and returns the actions of the stages.
  std::vector<std::string> run(const std::string& name, std::vector<Node> nodes,
                               ReuseOptions::Which which = ReuseOptions::Which::kCacheable) {
    for (Node& node : nodes) {
      if (node.kind != "test.keeping_leaf") continue;
      node.kind = "test.keeping";
      node.cacheable = false;
    }
    deeds.clear();
    events_.clear();
    flushed_.clear();
    std::ofstream metrics;
    Executor executor({"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kReusedKinds,
                      {.emit =
                           [&](const Event& event) {
                             events_.push_back(event);
                             const auto* line = std::get_if<Said>(&event);
                             if (line && line->line.starts_with("waiting") && on_wait_) on_wait_();
                             if (const auto* metric = std::get_if<NodeMetric>(&event))
                               metrics << R"({"node":")" << metric->node << R"(","name":")"
                                       << metric->name << R"(","value":)" << metric->value
                                       << R"(,"step":1,"time":0})" << std::endl;
                           },
                       .is_canceled = [] { return false; },
                       .sync_metrics = [&](const std::string&) { note_sync(folder_ / name); }});
    EXPECT_TRUE(executor.create().empty());
    RunOptions options{
        .folder = folder_ / name, .smoke = smoke_, .resume = resume_, .trained = checkpoints_};
    std::filesystem::create_directories(options.folder);
    metrics.open(options.folder / "metrics.jsonl", std::ios::app);
    options.reuse = {.index = folder_ / "index", .which = which, .world = world_};
    EXPECT_EQ(executor.run(options, "cpu"), ExitCode::kDone);
    return deeds;
  }
  /// Records for which nodes a flush of the metrics to the disk was requested, and whether the
  /// request came too late.
  void note_sync(const std::filesystem::path& run) {
    std::string node;
    for (const Event& event : events_) {
      if (const auto* started = std::get_if<NodeStarted>(&event)) node = started->node;
    }
    flushed_.push_back(node + (std::filesystem::exists(run / "nodes" / node / "finished.json")
                                   ? " too late"
                                   : ""));
  }
  std::vector<std::string> said() const {
    std::vector<std::string> lines;
    for (const Event& event : events_) {
      if (const auto* line = std::get_if<Said>(&event))
        lines.push_back(line->node + ": " + line->line);
      if (const auto* reused = std::get_if<Reused>(&event))
        lines.push_back(reused->node + " from " +
                        std::filesystem::path(reused->run).filename().string());
    }
    return lines;
  }
  std::vector<double> metrics() const {
    std::vector<double> values;
    for (const Event& event : events_) {
      if (const auto* metric = std::get_if<NodeMetric>(&event)) values.push_back(metric->value);
    }
    return values;
  }
  std::filesystem::path entry() const {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(folder_ / "index/test.keeping/features"))
      return file.path();
    return {};
  }

  /// The turn of another process for the node of this index entry.
  static std::optional<Turn> turn_at(const std::filesystem::path& entry) {
    const auto never = [] { return false; };
    return Turn::take(entry.parent_path() / ("." + entry.stem().string() + ".turn"), never, [] {});
  }

  const TemporaryFolder folder_;
  std::vector<Event> events_;
  std::vector<std::string> flushed_;
  nlohmann::json world_ = {{"threads", 2}};
  bool smoke_ = false, resume_ = false;
  CheckpointSources checkpoints_;
  std::function<void()> on_wait_;
};

}  // namespace runner
