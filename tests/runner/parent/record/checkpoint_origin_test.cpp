#include "runner/parent/record/checkpoint_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointOriginTest : public testing::Test {
 protected:
  CheckpointOriginTest() {
    for (const char* id : {"train.a", "train.b"}) {
      Node node{id,
                "train",
                "train.supervised",
                {},
                "/train",
                {},
                id == std::string("train.a") ? 1u : 2u};
      graph_.nodes.push_back(node);
    }
    write_graph(".retort", "h");
  }
  void write_graph(const std::string& records, const std::string& hash,
                   const ordered_json& accepted = nullptr) const {
    ordered_json json = {
        {"recipe_hash", hash},
        {"nodes", {{{"id", "train.a"}, {"seed", 1}}, {{"id", "train.b"}, {"seed", 2}}}}};
    if (!accepted.is_null()) json["accepted"] = accepted;
    folder_.write("run/" + records + "/graph.json", json.dump());
  }
  void save(const std::string& node, const std::string& step, const std::string& hash,
            int seed) const {
    folder_.write("run/nodes/" + node + "/checkpoints/step-0000000" + step + "/state.json",
                  ordered_json{{"recipe_hash", hash}, {"seed", seed}}.dump());
  }
  std::vector<std::string> foreign() const {
    std::vector<std::string> found;
    for (const Diagnostic& one : foreign_checkpoints(folder_ / "run", graph_)) {
      EXPECT_EQ(one.code, ErrorCode::kChangedRun);
      EXPECT_EQ(one.pointer, "/train");
      const std::size_t at = one.message.find("nodes/");
      found.push_back(one.message.substr(at, one.message.find('\'', at) - at));
    }
    return found;
  }
  TemporaryFolder folder_;
  Graph graph_;
};

TEST_F(CheckpointOriginTest, CheckpointsOfTheRunMatchItsRecordedRecipes) {
  save("train.a", "1", "h", 1);
  save("train.b", "1", "h", 2);
  EXPECT_THAT(foreign(), IsEmpty());
  save("train.a", "2", "h2", 1);
  EXPECT_THAT(foreign(), ElementsAre("nodes/train.a/checkpoints/step-00000002"));
  write_graph(".retort/resume-1", "h2");
  EXPECT_THAT(foreign(), IsEmpty());
}

TEST_F(CheckpointOriginTest, CheckpointFromAnotherTrainingOfTheSameRecipeIsForeign) {
  save("train.a", "1", "h", 2);
  EXPECT_THAT(foreign(), ElementsAre("nodes/train.a/checkpoints/step-00000001"));
}

TEST_F(CheckpointOriginTest, AcceptedCheckpointsStayAccepted) {
  save("train.b", "3", "other", 9);
  ASSERT_EQ(foreign().size(), 1u);
  const ordered_json accepted = accepted_checkpoints(folder_ / "run", graph_);
  EXPECT_EQ(accepted.dump(), R"({"train.b":[["other",9]]})");
  write_graph(".retort/resume-1", "h", accepted);
  EXPECT_THAT(foreign(), IsEmpty());
  save("train.a", "3", "other", 9);
  EXPECT_EQ(foreign().size(), 1u) << "only of that node";
}

TEST_F(CheckpointOriginTest, ReusedTrainingHasNoForeignCheckpoints) {
  save("train.a", "1", "another", 1);
  folder_.write("run/nodes/train.a/reused.json", "{}");
  EXPECT_THAT(foreign(), IsEmpty());
}

TEST_F(CheckpointOriginTest, DamagedFilesAreIgnored) {
  for (const char* text :
       {"", "3", "{}", R"({"recipe_hash": 3, "seed": 1})", R"({"recipe_hash": "x", "seed": -1})"}) {
    folder_.write("run/nodes/train.a/checkpoints/step-00000001/state.json", text);
    EXPECT_THAT(foreign(), IsEmpty()) << text;
  }
  save("train.a", "1", "another", 1);
  for (const char* text : {"", "[]", R"({"nodes": 3})", R"({"recipe_hash": "h", "nodes": [3, {}]})",
                           R"({"accepted": {"train.a": [3, [], ["x"], ["x", "y"]]}})"}) {
    folder_.write("run/.retort/graph.json", text);
    EXPECT_THAT(foreign(), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace runner
