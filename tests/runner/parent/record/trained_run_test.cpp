#include "runner/shared/record/recorded_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Choice = CheckpointSource::Choice;

class TrainedRun : public testing::Test {
 protected:
  TrainedRun() {
    for (const char* id : {"data", "model", "train", "evaluate"})
      add(id, std::string(id) + ".kind");
  }
  void add(const std::string& id, const std::string& kind) {
    graph_.nodes.push_back({id, id, kind, {}, "/" + id, {}, 0});
  }
  fs::path saved(const std::string& id) const {
    return folder_.path() / "nodes" / id / "checkpoints";
  }
  void save(const std::string& id, const std::string& name = "step-00000004") const {
    fs::create_directories(saved(id) / name);
    std::ofstream(saved(id) / name / "manifest.json") << "{}";
  }
  Result<CheckpointSources> find(const std::string& which = "") const {
    return find_checkpoint_sources(
        {.folder = folder_.path(), .recipe = {}, .device = {}, .source = source_, .status = {}},
        graph_, which);
  }
  /// "E0808 message | help".
  std::string error(const std::string& which = "") const {
    const auto found = find(which);
    if (found) return "found";
    const Diagnostic& first = found.errors().front();
    return name(first.code) + " " + first.message + " | " + first.help;
  }
  TemporaryFolder folder_;
  Graph graph_;
  std::string source_;
};

TEST_F(TrainedRun, FindsTheCheckpointsOfEveryTraining) {
  add("train.1", "train.supervised");
  save("train");
  save("train.1");
  const auto found = find();
  ASSERT_TRUE(found) << error();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at("train").folder, saved("train"));
  EXPECT_EQ(found->at("train.1").choice, Choice::kKept);
  EXPECT_EQ(find("best")->at("train").choice, Choice::kBest);
  EXPECT_EQ(find("latest")->at("train").choice, Choice::kLatest);
}

TEST_F(TrainedRun, FolderSelectsOneCheckpoint) {
  save("train");
  const std::string one = (saved("train") / "step-00000004").string();
  const auto found = find(one);
  ASSERT_TRUE(found) << error(one);
  EXPECT_EQ(found->at("train").folder, one);
  EXPECT_EQ(found->at("train").choice, Choice::kThis);
  EXPECT_EQ(error("nowhere"),
            "E0808 there is no checkpoint in 'nowhere' | use best, latest, or a checkpoint's "
            "folder, such as " +
                one);
  add("train.1", "train.supervised");
  EXPECT_EQ(
      error(one),
      "E0501 --checkpoint selects a single checkpoint, but the run has several training nodes: "
      "'train', 'train.1' | --checkpoint best and --checkpoint latest apply to all of them");
}

TEST_F(TrainedRun, RunWithoutCheckpointsSuggestsResuming) {
  const std::string folder = folder_.path().string();
  EXPECT_EQ(error(), "E0808 there is no checkpoint of 'train' in the run '" + folder +
                         "' | train it first with `retort resume " + folder + "`");
  fs::create_directories(saved("train") / ".step-00000004.part");  // killed during the first save
  EXPECT_THAT(error(), testing::HasSubstr("there is no checkpoint"));
}

TEST_F(TrainedRun, EvaluationsAndUntrainedRunsHaveNoWeights) {
  source_ = "outputs/a";
  EXPECT_EQ(error(), "E0808 '" + folder_.path().string() +
                         "' is an evaluation and has no weights of its own | give the run that it "
                         "evaluated: outputs/a");
  source_.clear();
  graph_.nodes.erase(graph_.nodes.begin() + 2);
  EXPECT_EQ(error(), "E0808 the run in '" + folder_.path().string() +
                         "' did not train anything | its recipe has no train stage");
}

std::string chosen(const CheckpointSources& trained, const std::string& wanted) {
  const auto node = choose_training(trained, wanted);
  return node ? *node
              : name(node.errors()[0].code) + " " + node.errors()[0].message + " | " +
                    node.errors()[0].help;
}

TEST(ChosenTraining, IsTheOnlyOrTheNamedNode) {
  EXPECT_EQ(chosen({{"train", {}}}, ""), "train");
  EXPECT_EQ(chosen({{"train.0", {}}, {"train.1", {}}}, "train.1"), "train.1");
  EXPECT_EQ(chosen({{"train.0", {}}, {"train.1", {}}}, ""),
            "E0501 the run has several training nodes: 'train.0', 'train.1' | name one: --node "
            "train.0");
  EXPECT_EQ(chosen({{"train", {}}}, "tran"),
            "E0501 the run has no training node 'tran' | did you mean 'train'?");
  EXPECT_EQ(chosen({{"train", {}}}, "model"),
            "E0501 the run has no training node 'model' | it has 'train'");
}

TEST_F(TrainedRun, HasWeightsIfEachTrainingStageSavedSome) {
  const auto graph = [&](const std::string& nodes) {
    std::ofstream(folder_.path() / ".retort/graph.json") << "{\"nodes\": [" << nodes << "]}";
  };
  fs::create_directories(folder_.path() / ".retort");
  EXPECT_FALSE(has_weights(folder_.path())) << "it was killed before it began";
  std::ofstream(folder_.path() / ".retort/environment.json") << "{}";
  graph(R"({"id": "data", "kind": "data.image_folder"})");
  EXPECT_FALSE(has_weights(folder_.path())) << "it does not train anything";
  graph(
      R"({"id": "train.0", "kind": "train.binary"}, {"id": "train.1", "kind": "train.binary"}, 3, {"id": 4})");
  save("train.0");
  EXPECT_FALSE(has_weights(folder_.path()));
  save("train.1");
  EXPECT_TRUE(has_weights(folder_.path()));
  std::ofstream(folder_.path() / ".retort/source.json") << R"({"run": "elsewhere"})";
  EXPECT_FALSE(has_weights(folder_.path())) << "it is an evaluation";
}

}  // namespace
}  // namespace runner
