#include "runner/worker/reuse.h"

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/worker/executor.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;
using Which = ReuseOptions::Which;

struct KeptNumber : Artifact {
  static constexpr auto kType = ArtifactType::kMetrics;
  explicit KeptNumber(std::int64_t value) : value(value) {}
  ArtifactType type() const override { return kType; }
  std::int64_t value;
};

/// The outside world as the stages find it, and the actions that they took, in order.
std::string world_outside;
std::vector<std::string> deeds;

std::string found_outside() { return world_outside == "nothing yet" ? "" : world_outside; }

/// Adds `plus` to its input and saves the sum in a file, which it reads back if allowed.
class KeepingStage : public Stage {
 public:
  explicit KeepingStage(std::int64_t plus) : plus_(plus) {}
  std::string fingerprint() const override { return found_outside(); }
  bool uses_seed() const override { return false; }

  Outputs run(const Inputs& inputs, RunContext& context) override {
    const fs::path file = context.node().folder / "sum.safetensors";
    if (context.node().reuses) {
      std::int64_t kept = 0;
      if (std::ifstream(file) >> kept) {
        deeds.push_back("read");
        return {{"out", std::make_shared<KeptNumber>(kept)}};
      }
      context.not_reused("no number in it");
      EXPECT_FALSE(context.node().reuses);
      EXPECT_FALSE(fs::exists(file));
    }
    deeds.push_back("computed");
    std::int64_t sum = plus_;
    for (const auto& number : inputs.all<KeptNumber>("in")) sum += number->value;
    std::ofstream(file) << sum;
    fs::create_directories(context.node().folder / "notes");
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

/// A training, as far as reuse is concerned.
class Training : public Stage {
 public:
  explicit Training(std::int64_t) {}
  Outputs run(const Inputs& inputs, RunContext& context) override {
    const auto trained = context.node().trained;
    const fs::path weights = context.node().folder / "checkpoints/weights";
    if (trained && trained->reused && !fs::exists(trained->folder / "weights"))
      context.not_reused("no weights");
    if (context.node().trained) deeds.push_back("took " + trained->folder.filename().string());
    else {
      deeds.push_back(inputs.find<KeptNumber>("in") ? "trained" : "trained on nothing");
      fs::create_directories(weights.parent_path());
      std::ofstream(weights) << "weights";
      context.metric("loss", 0.5, 1);
    }
    return {{"out", std::make_shared<KeptNumber>(3)}};
  }
};

template <typename T>
Result<std::unique_ptr<Stage>> create(ConfigReader& reader) {
  std::int64_t plus = 0;
  reader.read("plus", plus);
  if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<Stage>(std::make_unique<T>(plus));
}
const StageKind kKeeping{"test.keeping", create<KeepingStage>},
    kSource{"test.source", create<Source>}, kTraining{"train.test", create<Training>};
const StageKind* const kReusedKinds[] = {&kKeeping, &kSource, &kTraining};

Node kept_node(const std::string& id, const std::string& kind, std::int64_t plus,
               std::vector<std::size_t> from = {}) {
  Node result{id, id, kind, {}, "/" + id, {}, 7};
  result.options = from_json({{"plus", plus}});
  result.cacheable = kind == "test.keeping";
  for (const std::size_t index : from)
    result.inputs.push_back({"in", index, "out", ArtifactType::kMetrics});
  return result;
}

class ReuseTest : public testing::Test {
 protected:
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
                               Which which = Which::kCacheable) {
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
                       .is_cancelled = [] { return false; },
                       .sync_metrics = [&](const std::string&) { note_sync(folder_ / name); }});
    EXPECT_TRUE(executor.create().empty());
    RunOptions options{
        .folder = folder_ / name, .smoke = smoke_, .resume = resume_, .trained = checkpoints_};
    fs::create_directories(options.folder);
    metrics.open(options.folder / "metrics.jsonl", std::ios::app);
    options.reuse = {.index = folder_ / "index", .which = which, .world = world_};
    EXPECT_EQ(executor.run(options, "cpu"), ExitCode::kDone);
    return deeds;
  }
  /// Records the nodes whose metrics must be on the disk, and whether this was requested too late.
  void note_sync(const fs::path& run) {
    std::string node;
    for (const Event& event : events_) {
      if (const auto* started = std::get_if<NodeStarted>(&event)) node = started->node;
    }
    flushed_.push_back(node +
                       (fs::exists(run / "nodes" / node / "finished.json") ? " too late" : ""));
  }
  std::vector<std::string> said() const {
    std::vector<std::string> lines;
    for (const Event& event : events_) {
      if (const auto* line = std::get_if<Said>(&event))
        lines.push_back(line->node + ": " + line->line);
      if (const auto* reused = std::get_if<Reused>(&event))
        lines.push_back(reused->node + " from " + fs::path(reused->run).filename().string());
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
  fs::path entry() const {
    for (const auto& file :
         fs::recursive_directory_iterator(folder_ / "index/test.keeping/features"))
      return file.path();
    return {};
  }

  /// The turn of another process for the node of this index entry.
  static std::optional<Turn> turn_at(const fs::path& entry) {
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

TEST_F(ReuseTest, NodeIsFinishedOnlyWhenItsMetricsAreOnTheDisk) {
  run("a", chain());
  EXPECT_THAT(flushed_, ElementsAre("data", "features", "train", "test"));
  EXPECT_THAT(run("b", chain(), Which::kAll), testing::Not(testing::Contains("computed")));
  EXPECT_THAT(flushed_, testing::Contains("test"));
  for (const std::string& node : flushed_) EXPECT_EQ(node.find("too late"), node.npos) << node;
}

TEST_F(ReuseTest, SecondRunWaitsForTheFirst) {
  run("a", chain());
  // As if "a" still had to finish the features.
  const fs::path finished = entry(), aside = folder_ / "aside";
  fs::rename(finished, aside);
  auto turn = turn_at(finished);
  ASSERT_TRUE(turn);
  on_wait_ = [&] {
    fs::rename(aside, finished);
    turn.reset();
  };
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features: waiting: another run is computing this node",
                                  "features from a"));
  // If the first run has failed, the second does the work.
  fs::remove(finished);
  auto other_turn = turn_at(finished);
  on_wait_ = [&] { other_turn.reset(); };
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_TRUE(fs::exists(finished));
}

TEST_F(ReuseTest, RunsWithoutReuseDoNotWait) {
  run("a", chain());
  const auto turn = turn_at(entry());
  EXPECT_THAT(run("b", chain(), Which::kNone),
              ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"))
      << "what is there is taken";
}

TEST_F(ReuseTest, SecondRunReadsWhatTheFirstComputed) {
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from a"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 103));
  // Its record is self-contained, and the next run finds it.
  EXPECT_EQ(folder_.read("b/nodes/features/notes/words.txt"), "how it went");
  EXPECT_EQ(fs::hard_link_count(folder_ / "b/nodes/features/sum.safetensors"), 2u);
  EXPECT_EQ(fs::hard_link_count(folder_ / "b/nodes/features/notes/words.txt"), 1u);
  const auto record = nlohmann::json::parse(folder_.read("b/nodes/features/reused.json"));
  EXPECT_EQ(record["from"], (folder_ / "a").string());
  EXPECT_EQ(read_finished(folder_ / "b/nodes/features")->reused_from, (folder_ / "a").string());
  fs::remove_all(folder_ / "a");
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from b"));
}

TEST_F(ReuseTest, EveryNodeIsReusedOnRequest) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(), Which::kAll),
              ElementsAre("source"));  // it has no files to reuse
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a", "test from a"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 103));
  EXPECT_EQ(folder_.read("b/nodes/test/sum.safetensors"), "103");
  EXPECT_EQ(folder_.read("b/nodes/train/checkpoints/weights"), "weights");
}

TEST_F(ReuseTest, TrainingIsReusedIfItsWeightsAreNeeded) {
  run("a", chain());
  std::vector<Node> nodes = chain();
  nodes[3] = kept_node("test", "test.keeping_leaf", 200, {2});
  EXPECT_THAT(run("b", nodes, Which::kAll),
              ElementsAre("source", "read", "took checkpoints", "computed"));
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a",
                                  "test: computed again: test.plus was 100 and is now 200"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 203));
}

TEST_F(ReuseTest, DamagedWeightsAreTrainedAgain) {
  run("a", chain());
  std::vector<Node> nodes = chain();
  nodes[3] = kept_node("test", "test.keeping_leaf", 200, {2});
  fs::remove(folder_ / "a/nodes/train/checkpoints/weights");
  EXPECT_THAT(run("b", nodes, Which::kAll), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(
      said(),
      testing::Contains(
          "train: computed again: the results of an earlier run are missing or have changed"));
}

TEST_F(ReuseTest, ReuseCanBeDisabled) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(), Which::kNone),
              ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), IsEmpty());
  fs::remove_all(folder_ / "a");  // b has also been entered in the index
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "read", "trained", "computed"));
}

TEST_F(ReuseTest, ChangedFieldIsReported) {
  run("a", chain());
  EXPECT_THAT(run("b", chain(2)), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features: computed again: data.plus was 1 and is now 2"));
  world_["threads"] = 4;
  run("c", chain(2));
  EXPECT_THAT(said(), ElementsAre("features: computed again: threads was 2 and is now 4"));
  world_outside = "other pictures";
  run("d", chain(2));
  EXPECT_THAT(
      said(),
      ElementsAre(
          "features: computed again: the files of 'data' have changed; the files of 'features' "
          "have changed"));
}

TEST_F(ReuseTest, NearestEarlierNodeIsReported) {
  run("a", chain(1, 10));
  run("b", chain(2, 20));
  run("c", chain(1, 30));
  run("d", chain(2, 40));
  EXPECT_THAT(said(), ElementsAre("features: computed again: features.plus was 20 and is now 40"));
}

TEST_F(ReuseTest, SeedIsIgnoredIfTheStageDeclaresIt) {
  run("a", chain());
  std::vector<Node> nodes = chain();
  for (Node& node : nodes) node.seed = 8;
  EXPECT_THAT(run("b", nodes, Which::kAll), ElementsAre("source", "read", "trained", "computed"));
  EXPECT_THAT(said(), testing::Contains("train: computed again: train.seed was 7 and is now 8"));
}

TEST_F(ReuseTest, IndexEntryOutsideTheNodesFolderIsIgnored) {
  run("a", chain());
  auto json = nlohmann::json::parse(std::ifstream(entry()));
  // The same file, under a name that leads out of the node's folder.
  json["files"][1][0] = "../features/" + json["files"][1][0].get<std::string>();
  std::ofstream(entry()) << json;
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(ReuseTest, DamagedFileIsNotReused) {
  run("a", chain());
  std::ofstream(folder_ / "a/nodes/features/sum.safetensors") << "xx";  // the same size as before
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(
      said(),
      ElementsAre(
          "features: computed again: the results of an earlier run are missing or have changed"));
  // With the same size and time, only the stage can detect the damage.
  const fs::path file = folder_ / "b/nodes/features/sum.safetensors";
  const auto time = fs::last_write_time(file);
  std::ofstream(file) << "xx";
  fs::last_write_time(file, time);
  EXPECT_THAT(run("c", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(said(), ElementsAre("features: computed again: no number in it"));
  EXPECT_THAT(metrics(), ElementsAre(11, 0.5, 103));
  EXPECT_FALSE(fs::exists(folder_ / "c/nodes/features/reused.json"));
  EXPECT_THAT(run("d", chain()), ElementsAre("source", "read", "trained", "computed"));
}

TEST_F(ReuseTest, DamagedEntryIsSkippedAndRemoved) {
  for (const std::string damage :
       {"", "{", "[1]", R"({"schema": 1})", R"({"schema": 1, "run": "/", "date": "",
       "files": [["../../../etc/passwd", 1, 1]], "metrics": 0, "document": {}})"}) {
    run("a" + std::to_string(damage.size()), chain());
    std::ofstream(entry()) << damage;
    EXPECT_THAT(run("b" + std::to_string(damage.size()), chain()),
                ElementsAre("source", "computed", "trained", "computed"))
        << damage;
    EXPECT_THAT(
        said(),
        ElementsAre(
            "features: computed again: the results of an earlier run are missing or have changed"));
  }
}

TEST_F(ReuseTest, EntryOfAnotherNodeIsNotReused) {
  run("a", chain());
  const fs::path right = entry(), kept = folder_ / "kept";
  fs::copy_file(right, kept);
  fs::remove(right);
  run("b", chain(2));
  fs::copy_file(kept, entry(), fs::copy_options::overwrite_existing);
  EXPECT_THAT(run("c", chain(2)), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(ReuseTest, RecordWithoutMetricsIsNotReused) {
  run("a", chain());
  fs::remove(folder_ / "a/metrics.jsonl");
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(ReuseTest, SmokeRunNeitherReusesNorEntersNodes) {
  smoke_ = true;
  run("a", chain());
  EXPECT_FALSE(fs::exists(folder_ / "index"));
  smoke_ = false;
  run("b", chain());
  smoke_ = true;
  EXPECT_THAT(run("c", chain(), Which::kAll),
              ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(ReuseTest, ResultsOfOtherWeightsAreNeitherReusedNorEntered) {
  run("a", chain());
  checkpoints_ = {
      {"train", {folder_ / "a/nodes/train/checkpoints", CheckpointSource::Choice::kLatest}}};
  EXPECT_THAT(run("b", chain(), Which::kAll),
              ElementsAre("source", "read", "took checkpoints", "computed"));
  EXPECT_TRUE(read_finished(folder_ / "b/nodes/test")->reuse_key.empty());
  EXPECT_FALSE(read_finished(folder_ / "b/nodes/features")->reuse_key.empty());
}

TEST_F(ReuseTest, InputsCreatedByTheRunAreRecognized) {
  world_outside = "nothing yet";
  EXPECT_THAT(run("a", chain()),
              ElementsAre("source", "wants out", "computed", "trained", "computed"));
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "wants out", "read", "trained", "computed"));
}

TEST_F(ReuseTest, InputsThatChangeDuringTheRunAreNotEntered) {
  world_outside = "about to change";
  run("a", chain());
  EXPECT_FALSE(fs::exists(folder_ / "index"));
}

TEST_F(ReuseTest, ResumedRunReadsItsOwnFiles) {
  run("a", chain());
  fs::remove_all(folder_ / "index");
  fs::remove(folder_ / "a/nodes/train/finished.json");
  resume_ = true;
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "read", "trained"));
  EXPECT_THAT(said(), IsEmpty());
  fs::remove(folder_ / "a/nodes/train/finished.json");
  world_outside = "other pictures";
  EXPECT_THAT(run("a", chain()), ElementsAre("source", "wants out", "computed", "trained"));
}

TEST_F(ReuseTest, ResumedRunReportsReusedNodesAgain) {
  run("a", chain());
  run("b", chain(), Which::kAll);
  resume_ = true;
  EXPECT_THAT(run("b", chain()), IsEmpty());
  EXPECT_THAT(said(), ElementsAre("features from a", "train from a", "test from a"));
}

TEST_F(ReuseTest, UnwritableIndexIsNotAnError) {
  std::ofstream(folder_ / "index") << "in the way";
  EXPECT_THAT(run("a", {kept_node("features", "test.keeping", 1)}), ElementsAre("computed"));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("features: later runs cannot reuse it: ")));
}

TEST_F(ReuseTest, DataAreNotComputedForAFinishedTraining) {
  std::vector<Node> nodes = {kept_node("data", "test.source", 1),
                             kept_node("train", "train.test", 0, {0})};
  nodes[1].inputs[0].type = ArtifactType::kDataset;
  checkpoints_ = {{"train", {folder_ / "elsewhere", CheckpointSource::Choice::kKept}}};
  world_outside = "";
  EXPECT_THAT(run("a", nodes), ElementsAre("source", "took elsewhere"));
}

TEST_F(ReuseTest, ManyRunsMayEnterTheSameNodeAtOnce) {
  const NodeIndex index(folder_ / "index");
  const nlohmann::json document = {{"nodes", {{"features", {{"kind", "x"}}}}}};
  const std::string key = document_key(document);
  folder_.write("run/nodes/features/file", "content");
  const IndexedNode node{.document = document,
                         .run = folder_ / "run",
                         .files = node_files(folder_ / "run/nodes/features"),
                         .metrics = 0,
                         .date = "today"};
  int missed = 0;
  index.put("x", "features", key, node);
  std::thread reader([&] {
    for (int i = 0; i < 200; ++i) missed += index.find("x", "features", key) ? 0 : 1;
  });
  for (int i = 0; i < 200; ++i) index.put("x", "features", key, node);
  reader.join();
  EXPECT_EQ(missed, 0);
}

TEST(NodeIndexFolder, IsTheUsersCache) {
  ASSERT_EQ(setenv("RETORT_CACHE", "/a/cache", 1), 0);
  EXPECT_EQ(node_index_folder(), "/a/cache/nodes");
  ASSERT_EQ(setenv("RETORT_CACHE", "relative", 1), 0);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/x", 1), 0);
  EXPECT_EQ(node_index_folder(), "/x/retort/nodes");
  unsetenv("RETORT_CACHE");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace runner
