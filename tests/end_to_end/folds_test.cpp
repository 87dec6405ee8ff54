// End-to-end tests of cross-validation: runs and sweeps over folds.

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class Folds : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 10 --size 32 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.keep();
  }
  static std::string arguments(const std::string& dir) {
    return "classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
           "train.epochs=1 data.folds.count=3 'data.folds.index=range(0,3)' sweep.dir=" +
           dir + " ";
  }
  Ended sweep(const std::string& dir, const std::string& more = "") const {
    return retort("sweep " + arguments(dir) + more, folder_.path());
  }
  /// The first column of a CSV without its header.
  static std::vector<std::string> first_column(const std::string& text) {
    std::vector<std::string> fields;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      fields.push_back(line.substr(0, line.find(',')));
    fields.erase(fields.begin());
    return fields;
  }
  std::vector<std::string> predicted(const std::string& run, const std::string& node) const {
    return first_column(file_text(folder_ / (run + "/nodes/" + node + "/predictions.csv")));
  }
  SharedFolder folder_;
};

TEST_F(Folds, SweepPredictsEachImageOnce) {
  const Ended ended = sweep("whole");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("cross-validation over 3 folds, evaluate.fold:\n"));
  std::vector<std::string> all;
  for (const char* const trial : {"whole/0", "whole/1", "whole/2"}) {
    const auto fold = predicted(trial, "evaluate.fold");
    all.insert(all.end(), fold.begin(), fold.end());
    EXPECT_EQ(predicted(trial, "evaluate"), predicted("whole/0", "evaluate"))
        << "all folds have the same test part";
  }
  const std::vector<std::string> tested = predicted("whole/0", "evaluate");
  EXPECT_EQ(all.size() + tested.size(), 20u);
  all.insert(all.end(), tested.begin(), tested.end());
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 20u);
  const json pooled =
      json::parse(file_text(folder_ / "whole/results.json"))["cross_validations"][0]["pooled"];
  EXPECT_EQ(pooled["samples"], 16);
  EXPECT_EQ(first_column(file_text(folder_ / "whole/out_of_fold.csv")).size(), 16u);
}

TEST_F(Folds, ResumedSweepGivesTheSamePredictions) {
  ASSERT_EQ(sweep("whole", "-q").exit, 0);
  run_shell(std::string(RETORT_BINARY_DIR) + "/bin/retort sweep " + arguments("cut") +
                "-q & sweep=$!\nfor i in $(seq 600); do grep -q '\"trial\":1,' cut/sweep.jsonl "
                "2>/dev/null && break; sleep 0.05; done; kill -9 $sweep; wait $sweep; true",
            folder_.path());
  const Ended shown = retort("sweep show cut", folder_.path());
  EXPECT_THAT(shown.out, HasSubstr("nothing is pooled: fold"));
  const Ended resumed = retort("sweep resume cut -q", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(file_text(folder_ / "cut/out_of_fold.csv"),
            file_text(folder_ / "whole/out_of_fold.csv"));
}

TEST_F(Folds, RunWithoutATestPartEvaluatesTheFold) {
  const std::string all = "data.folds={} data.split.train=0.9 data.split.test=0 ";
  const std::string run =
      "run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
      "train.epochs=1 ";
  const Ended refused = retort(run + all + "run.dir=r", folder_.path());
  EXPECT_NE(refused.exit, 0);
  EXPECT_THAT(refused.err, HasSubstr("wire the data's `validation` output"));
  const Ended ended =
      retort(run + all + "+evaluate.inputs.test=data.validation run.dir=r", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(predicted("r", "evaluate").size(), 4u);
}

TEST_F(Folds, EvaluationOnOtherDataIgnoresTheFold) {
  ASSERT_EQ(sweep("trained", "-q").exit, 0);
  ASSERT_EQ(
      retort("data make image_folder --out others --classes 2 --per-class 3 --size 32 --seed 9 -q",
             folder_.path())
          .exit,
      0);
  const Ended ended =
      retort("evaluate trained/1 data.root=others data.make=null run.dir=measured", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(predicted("measured", "evaluate").size(), 6u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "measured/nodes/evaluate.fold"));
}

}  // namespace
