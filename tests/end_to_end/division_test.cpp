// End-to-end tests of splits: a run records how its images are divided, and resuming or evaluating
// it uses the recorded split.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RecordedSplit : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 12 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }

  Ended train(const std::string& name, const std::string& fault = "",
              const std::string& more = "") {
    return run_shell(
        (fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
            "/bin/retort run quickstart data.root=photos data.make=null data.image_size=16 "
            "data.split='{train: 0.5, validation: 0.25, test: 0.25}' model.patch_size=8 "
            "model.num_hidden_layers=1 train.epochs=2 train.batch_size=6 "
            "train.checkpoint.every.steps=1 memory.max_retries=0 run.dir=" +
            name + ' ' + more,
        folder_.path());
  }
  Ended evaluate(const std::string& name, const std::string& more = "") {
    return retort(
        "evaluate " + name + " run.dir=evaluated" + std::to_string(++evaluations_) + ' ' + more,
        folder_.path());
  }
  /// The predictions of the last evaluation.
  std::string tested() const { return predictions("evaluated" + std::to_string(evaluations_)); }
  std::string predictions(const std::string& run) const {
    return file_text(folder_ / (run + "/nodes/evaluate/predictions.csv"));
  }
  std::string weights(const std::string& run) const { return latest_weights(folder_ / run); }

  std::vector<fs::path> photos() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos"))
      if (entry.path().extension() == ".jpg") files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }
  /// Adds images to each class, some of which sort first by name.
  void add_photos() const {
    for (const fs::path& file : photos()) {
      if (file.filename() == "00000.jpg") fs::copy_file(file, file.parent_path() / "00000a.jpg");
      if (file.filename() == "00001.jpg") fs::copy_file(file, file.parent_path() / "-1.jpg");
    }
  }

  SharedFolder folder_;
  int evaluations_ = 0;
};

TEST_F(RecordedSplit, EvaluationUsesTheRecordedTestPart) {
  ASSERT_EQ(train("a").exit, 0);
  EXPECT_TRUE(fs::exists(folder_ / "a/nodes/data/division.gz"));
  add_photos();
  const Ended refused = evaluate("a");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("error[E0807]: the input /data/root was "));
  const Ended ended = evaluate("a", "--force");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(tested(), predictions("a"));
  EXPECT_THAT(
      ended.err,
      HasSubstr("6 images have been added since the run started, so no part contains them: "));
  EXPECT_THAT(ended.err, HasSubstr("trained on none of the 9 test images"));
}

TEST_F(RecordedSplit, TestingOnTrainingImagesNeedsPermission) {
  ASSERT_EQ(train("a").exit, 0);
  for (const char* const change :
       {"data.split.seed=7", "data.split='{train: 0.4, validation: 0.2, test: 0.4}'"}) {
    const Ended ended = evaluate("a", change);
    EXPECT_EQ(ended.exit, 65) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("error[E0612]: the model was trained on ")) << change;
    EXPECT_FALSE(fs::exists(folder_ / ("evaluated" + std::to_string(evaluations_))));
    const Ended allowed = evaluate("a", change + std::string(" evaluate.allow_trained=true"));
    EXPECT_EQ(allowed.exit, 0) << allowed.err;
    EXPECT_THAT(allowed.err, HasSubstr("the model was trained on "));
  }
}

TEST_F(RecordedSplit, CopiedImagesAreRecognized) {
  ASSERT_EQ(train("a").exit, 0);
  fs::copy(folder_ / "photos", folder_ / "copy", fs::copy_options::recursive);
  const Ended all = evaluate("a", "data.root=copy");
  EXPECT_EQ(all.exit, 65) << all.err;
  EXPECT_THAT(all.err, HasSubstr("trained on 27 of the 36 test images"));
  const Ended test = evaluate("a", "data.root=copy data.split.test=0.25");
  EXPECT_EQ(test.exit, 0) << test.err;
  EXPECT_EQ(tested(), predictions("a"));
}

TEST_F(RecordedSplit, ImagesSeenByWarmStartWeightsCountAsTrainingImages) {
  ASSERT_EQ(train("a").exit, 0);
  const std::string from_a = "train.warm_start=a ";
  const Ended same = train("same", "", from_a);
  ASSERT_EQ(same.exit, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("the model was trained on none of the 9 test images"));
  const Ended other = train("other", "", from_a + "data.split.seed=7");
  EXPECT_EQ(other.exit, 65) << other.err;
  EXPECT_THAT(other.err, HasSubstr("error[E0612]: the model was trained on "));
  ASSERT_EQ(train("allowed", "", from_a + "data.split.seed=7 evaluate.allow_trained=true").exit, 0);
  const Ended evaluated = evaluate("allowed", "evaluate.allow_trained=false");
  EXPECT_EQ(evaluated.exit, 65) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("error[E0612]: the model was trained on "));
}

TEST_F(RecordedSplit, MissingImageStopsEvaluation) {
  ASSERT_EQ(train("a").exit, 0);
  const fs::path gone = photos().front();
  fs::remove(gone);
  const Ended ended = evaluate("a");
  EXPECT_NE(ended.exit, 0);
  EXPECT_THAT(ended.err, HasSubstr("error[E0807]: "));
}

TEST_F(RecordedSplit, RunThatTestsOnItsTrainingPartIsRejected) {
  const Ended ended = train("a", "", "++evaluate.inputs.test=data.train");
  EXPECT_EQ(ended.exit, 65) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("error[E0612]: the model was trained on 18 of the 18 "));
  EXPECT_FALSE(fs::exists(folder_ / "a")) << "detected before training";
  const Ended validation = train("b", "", "++evaluate.inputs.test=data.validation");
  EXPECT_EQ(validation.exit, 0) << validation.err;
}

TEST_F(RecordedSplit, RerunUsesTheSameSplit) {
  ASSERT_EQ(train("a").exit, 0);
  add_photos();
  const Ended again = retort("runs rerun a run.dir=b --force", folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(predictions("b"), predictions("a"));
  EXPECT_TRUE(weights("b") == weights("a"));
}

TEST_F(RecordedSplit, ResumedRunUsesTheSameSplit) {
  ASSERT_EQ(train("whole").exit, 0);
  EXPECT_NE(train("a", "retort-worker/step:3:kill_both").exit, 0);
  add_photos();
  const Ended resumed = retort("resume a --force", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(predictions("a"), predictions("whole"));
  EXPECT_TRUE(weights("a") == weights("whole"));
}

}  // namespace
