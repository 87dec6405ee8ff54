// End-to-end tests of `retort runs rerun` and `retort runs reproduce`.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Reproduce : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 2 --per-class 6 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    const Ended ran = retort(
        "run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
        "train.epochs=2 memory.micro_batch=2 run.dir=a -q",
        folder_.path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    folder_.keep();
  }
  Ended runs(const std::string& words) const { return retort("runs " + words, folder_.path()); }
  /// Appends a byte to one of the images, which can still be decoded.
  void change_a_photo() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() != ".jpg") continue;
      std::ofstream(entry.path(), std::ios::app | std::ios::binary) << "x";
      return;
    }
  }
  json environment(const std::string& run) const {
    return json::parse(file_text(folder_ / run / ".retort/environment.json"));
  }
  SharedFolder folder_;
};

TEST_F(Reproduce, RecordSufficesForTheSameBits) {
  const Ended again = runs("reproduce a run.dir=b --json");
  ASSERT_EQ(again.exit, 0) << again.err;
  const json found = json::parse(again.out)["result"];
  EXPECT_EQ(found["verdict"], "identical");
  EXPECT_EQ(found["folder"], "b");
  EXPECT_GT(found["metrics"], 20);
  EXPECT_GE(found["files"], 5);
  EXPECT_TRUE(found["changes"].empty()) << found["changes"];
  EXPECT_THAT(file_text(folder_ / "b/log.txt"), HasSubstr("chosen when the run started: "));
  EXPECT_EQ(environment("b")["inputs"], environment("a")["inputs"]);
}

TEST_F(Reproduce, DifferentNumberOfThreadsCausesAWarning) {
  const Ended again = runs("reproduce a run.dir=b threads=2 --tolerance 0.01");
  EXPECT_THAT(again.err, HasSubstr("warning[E0807]: the number of threads was 1 and is now 2\n"));
  EXPECT_THAT(again.exit, testing::AnyOf(0, 2)) << again.out << again.err;
}

TEST_F(Reproduce, FirstDifferenceIsReportedWithItsStep) {
  const Ended again = runs("reproduce a run.dir=b train.optimizer.learning_rate=0.5");
  EXPECT_EQ(again.exit, 3) << again.err;
  EXPECT_THAT(again.out, HasSubstr("different: not within a relative difference of 0.001\n"
                                   "first difference: train, step 1: train/learning_rate was "));
  EXPECT_THAT(again.out, testing::EndsWith("\nb\n"));
}

TEST_F(Reproduce, ChangedInputIsRejectedUnlessForced) {
  change_a_photo();
  const Ended refused = runs("rerun a run.dir=b");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err,
              HasSubstr("error[E0807]: the input /data/root has other files: 12 files with "));
  EXPECT_THAT(refused.err, HasSubstr("add --force, in which case the result may differ"));
  EXPECT_FALSE(fs::exists(folder_ / "b")) << "reported before anything is written";
  const Ended forced = runs("rerun a run.dir=b --force");
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err,
              HasSubstr("warning[E0807]: the input /data/root has other files: 12 files with "));
  EXPECT_EQ(forced.out, "b\n");
}

TEST_F(Reproduce, OverriddenInputCausesNoWarning) {
  fs::copy(folder_ / "photos", folder_ / "others", fs::copy_options::recursive);
  change_a_photo();
  const Ended other = runs("rerun a run.dir=b data.root=others train.epochs=1");
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.err, Not(HasSubstr("E0807")));
}

TEST_F(Reproduce, UnsuitableRecordsAreRejected) {
  ASSERT_EQ(retort("evaluate a run.dir=e -q", folder_.path()).exit, 0);
  const Ended evaluation = runs("rerun e");
  EXPECT_EQ(evaluation.exit, 66);
  EXPECT_THAT(evaluation.err, HasSubstr("is an evaluation of '"));
  const Ended nothing = runs("reproduce photos");
  EXPECT_EQ(nothing.exit, 66);
  EXPECT_THAT(nothing.err, HasSubstr("'photos' is not the folder of a run"));
  json graph = json::parse(file_text(folder_ / "a/.retort/graph.json"));
  for (json& node : graph["nodes"]) node["version"] = 99;
  folder_.write("a/.retort/graph.json", graph.dump());
  const Ended kinds = runs("reproduce a");
  EXPECT_EQ(kinds.exit, 78);
  EXPECT_THAT(kinds.err, HasSubstr("'train.supervised' had version 99 and now has version "));
  json summary = json::parse(file_text(folder_ / "a/summary.json"));
  summary["status"] = "failed";
  folder_.write("a/summary.json", summary.dump());
  const Ended failed = runs("reproduce a");
  EXPECT_EQ(failed.exit, 66);
  EXPECT_THAT(
      failed.err,
      HasSubstr("the run in 'a' has not finished, so there is nothing to compare with: its status "
                "is 'failed'"));
  EXPECT_EQ(runs("reproduce a --tolerance -1").exit, 64);
  EXPECT_EQ(runs("status a --force").exit, 64);
  EXPECT_EQ(runs("status a train.epochs=3").exit, 64);
  EXPECT_FALSE(fs::exists(folder_ / "outputs"));
}

TEST_F(Reproduce, RunResumedWithDifferentOptionsIsRejected) {
  ASSERT_EQ(retort("resume a train.epochs=3 --force -q", folder_.path()).exit, 0);
  const Ended refused = runs("reproduce a");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err,
              HasSubstr("the run was resumed with options different from the original ones"));
}

TEST_F(Reproduce, NewRunIsComparedSampleBySample) {
  ASSERT_EQ(runs("rerun a run.dir=b train.epochs=1 -q").exit, 0);
  const Ended compared = retort("compare a b --paired --seed 3 --json", folder_.path());
  ASSERT_EQ(compared.exit, 0) << compared.err;
  const json pair = json::parse(compared.out)["result"]["paired"][0];
  EXPECT_EQ(pair["run"], "b");
  EXPECT_EQ(pair["better"].get<int>() + pair["worse"].get<int>() + pair["equal"].get<int>(), 2);
  EXPECT_EQ(pair["seed"], 3);
  fs::remove(folder_ / "b/nodes/evaluate/predictions.csv");
  const Ended none = retort("compare a b --paired", folder_.path());
  EXPECT_EQ(none.exit, 66);
  EXPECT_THAT(none.err, HasSubstr("there is no 'b/nodes/evaluate/predictions.csv'"));
  ASSERT_EQ(runs("rerun a run.dir=c data.split.seed=9 -q").exit, 0);
  const Ended others = retort("compare a c --paired", folder_.path());
  EXPECT_EQ(others.exit, 78);
  EXPECT_THAT(others.err, HasSubstr("'c' was evaluated on different samples than 'a': "));
}

TEST_F(Reproduce, PartialRunIsReproducedPartially) {
  ASSERT_EQ(retort("run a/.retort/recipe.yaml run.dir=part --only train -q", folder_.path()).exit,
            0);
  ASSERT_FALSE(fs::exists(folder_ / "part/nodes/evaluate"));
  const Ended again = runs("reproduce part run.dir=b");
  EXPECT_EQ(again.exit, 0) << again.out << again.err;
  EXPECT_FALSE(fs::exists(folder_ / "b/nodes/evaluate"));
}

}  // namespace
