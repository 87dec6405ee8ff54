// Damaged files, entries of other nodes and incomplete records are not reused.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/reuse_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Which = ReuseOptions::Which;

using DamagedReuse = ReuseTest;

TEST_F(DamagedReuse, DamagedWeightsAreTrainedAgain) {
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

TEST_F(DamagedReuse, IndexEntryOutsideTheNodesFolderIsIgnored) {
  run("a", chain());
  auto json = nlohmann::json::parse(std::ifstream(entry()));
  // Names an existing file by a path that leads out of the node's folder.
  json["files"][1][0] = "../features/" + json["files"][1][0].get<std::string>();
  std::ofstream(entry()) << json;
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(DamagedReuse, DamagedFileIsNotReused) {
  run("a", chain());
  std::ofstream(folder_ / "a/nodes/features/sum.safetensors") << "xx";  // the same size as before
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
  EXPECT_THAT(
      said(),
      ElementsAre(
          "features: computed again: the results of an earlier run are missing or have changed"));
  // If the size and time of a damaged file are unchanged, only the stage can detect the damage.
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

TEST_F(DamagedReuse, DamagedEntryIsSkippedAndRemoved) {
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

TEST_F(DamagedReuse, EntryFromAnotherNodeIsNotReused) {
  run("a", chain());
  const fs::path right = entry(), kept = folder_ / "kept";
  fs::copy_file(right, kept);
  fs::remove(right);
  run("b", chain(2));
  fs::copy_file(kept, entry(), fs::copy_options::overwrite_existing);
  EXPECT_THAT(run("c", chain(2)), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(DamagedReuse, RecordWithoutMetricsIsNotReused) {
  run("a", chain());
  fs::remove(folder_ / "a/metrics.jsonl");
  EXPECT_THAT(run("b", chain()), ElementsAre("source", "computed", "trained", "computed"));
}

TEST_F(DamagedReuse, UnwritableIndexIsNotAnError) {
  std::ofstream(folder_ / "index") << "in the way";
  EXPECT_THAT(run("a", {kept_node("features", "test.keeping", 1)}), ElementsAre("computed"));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("features: later runs cannot reuse it: ")));
}

}  // namespace
}  // namespace runner
