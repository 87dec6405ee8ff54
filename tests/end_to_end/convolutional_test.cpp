// End-to-end tests of a convolutional classifier: training, resuming and predicting.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

constexpr const char* kClassify =
    " classify model=se_resnext50_32x4d model.weights=null model.layers=[1,1,1,1] "
    "model.cardinality=2 data.root=photos data.image_size=32 data.split.train=0.6 "
    "data.split.test=0.2 "
    "data.loader.workers=0 epochs=2 batch_size=4 device=cpu train.checkpoint.every.steps=1 "
    "memory.max_retries=0 ";

class Convolutional : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 8 --size 40 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  Ended run(const std::string& name, const std::string& more = "",
            const std::string& fault = "") const {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') +
                         RETORT_BINARY_DIR "/bin/retort run" + kClassify + more +
                         " run.dir=" + name,
                     folder_.path());
  }
  std::string weights(const std::string& name) const {
    const std::filesystem::path checkpoints = folder_ / (name + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  SharedFolder folder_;
};

TEST_F(Convolutional, ResumedTrainingIsBitIdenticalAndCanPredict) {
  const std::string deep = "model.drop_path=0.3";
  const Ended whole = run("whole", deep);
  ASSERT_EQ(whole.exit, 0) << whole.err;
  ASSERT_NE(run("killed", deep, "retort-worker/step:3").exit, 0);
  const Ended resumed = retort("resume killed", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("killed") == weights("whole"));
  const Ended predicted = retort("predict whole photos", folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("file,class_1,probability_1"));
}

TEST_F(Convolutional, EachPartHasItsOwnLearningRate) {
  const Ended ended =
      run("parts", "train.learning_rate_factors.backbone=0.1 \"model.frozen=[stem,layer1]\"");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "parts/metrics.jsonl"),
              HasSubstr("train/learning_rate/backbone"));
}

}  // namespace
