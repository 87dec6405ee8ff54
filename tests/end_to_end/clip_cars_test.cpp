// End-to-end tests of the recipe that trains CLIP on cars and captions, with small towers of random
// weights.

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/car_listing.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/small_clip.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class ClipCars : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make stanford_cars --out cars --classes 4 --per-class 20 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  Ended run(const std::string& name, const std::string& more = "",
            const std::string& fault = "") const {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
                         "/bin/retort run clip_cars data.root=cars epochs=2 " + kSmallClip +
                         "run.dir=" + name + ' ' + more,
                     folder_.path());
  }
  void expect_refused(const std::string& more, int exit, const std::string& what) const {
    const Ended ended = run("refused", more);
    EXPECT_EQ(ended.exit, exit) << more;
    EXPECT_THAT(ended.err, HasSubstr(what)) << more;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused")) << more;
  }
  json metrics(const std::string& node) const {
    return json::parse(file_text(folder_ / (node + "/metrics.json")));
  }
  std::filesystem::path best(const std::string& name) const {
    const std::filesystem::path checkpoints = folder_ / (name + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return checkpoints / best / "model.safetensors";
  }
  SharedFolder folder_;
};

TEST_F(ClipCars, EvaluatesClassificationAndRetrieval) {
  const Ended ended = run("run", "batch_size=8");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("evaluate: class head: top-1 "));
  EXPECT_THAT(
      ended.err,
      HasSubstr(
          "40 pairs, a match with an equal caption also counts as a hit: 4 different captions"));
  const json classes = metrics("run/nodes/evaluate"), pairs = metrics("run/nodes/retrieval");
  EXPECT_EQ(classes["samples"], 40);
  EXPECT_EQ(classes["per_class"].size(), 4u);
  EXPECT_EQ(classes["class_head"]["samples"], 40);
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "run/nodes/evaluate/examples"));
  EXPECT_NEAR(classes["chance"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(pairs["pairs"], 40);
  EXPECT_EQ(pairs["hits"], "same_caption");
  for (const char* direction : {"image_to_text", "text_to_image"}) {
    const json& recall = pairs[direction];
    EXPECT_LE(recall["recall_at_1"], recall["recall_at_5"]) << direction;
    EXPECT_LE(recall["recall_at_5"], recall["recall_at_10"]) << direction;
    EXPECT_GE(recall["mean_rank"], 1) << direction;
  }
}

TEST_F(ClipCars, ResumedTrainingIsBitIdentical) {
  ASSERT_EQ(run("whole", "batch_size=8").exit, 0);
  const std::string killed = "batch_size=8 train.checkpoint.every.steps=1 memory.max_retries=0";
  ASSERT_NE(run("killed", killed, "retort-worker/step:6").exit, 0);
  const Ended resumed = retort("resume killed", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(file_text(best("killed")), file_text(best("whole")));
  EXPECT_EQ(metrics("killed/nodes/evaluate"), metrics("whole/nodes/evaluate"));
  EXPECT_EQ(metrics("killed/nodes/retrieval"), metrics("whole/nodes/retrieval"));
}

TEST_F(ClipCars, MicroBatchesTrainLikeTheWholeBatch) {
  ASSERT_EQ(run("whole", "batch_size=32").exit, 0);
  const Ended parts = run("parts", "batch_size=16 gradient_accumulation_steps=2");
  ASSERT_EQ(parts.exit, 0) << parts.err;
  EXPECT_THAT(parts.err, HasSubstr("train: Effective batch size: 32 (2 x 16)"));
  EXPECT_THAT(parts.err, HasSubstr("train: each image is compared with all others in the batch"));
  const Ended apart =
      run("apart", "batch_size=16 gradient_accumulation_steps=2 train.loss.negatives=micro_batch");
  ASSERT_EQ(apart.exit, 0) << apart.err;
  EXPECT_LT(most_different(best("parts"), best("whole")), 1e-6);
  EXPECT_GT(most_different(best("apart"), best("whole")), 2e-6);
}

TEST_F(ClipCars, ReportsTheNumberOfNegativesPerMicroBatch) {
  ASSERT_EQ(make_car_listing(folder_.path(), 3, 20).exit, 0);
  const Ended ended = retort(
      "run clip_cars_as_published epochs=1 batch_size=16 gradient_accumulation_steps=2 "
      "memory.precision=fp32 run.dir=published " +
          std::string(kSmallClip),
      folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err,
              HasSubstr("negatives: micro_batch: each image is compared only with the 15 others in "
                        "its micro-batch, so this is not the loss of the whole batch"));
  EXPECT_THAT(ended.err,
              HasSubstr("within its class: the image's own caption is the nearest for "));
}

TEST_F(ClipCars, PredictClassifiesByTextLabels) {
  ASSERT_EQ(run("run", "epochs=1 batch_size=32").exit, 0);
  const std::string photo = "cars/cars_test/00001.jpg";
  const Ended named =
      retort("predict run " + photo + R"( --labels "a photo of a red car." "a blue car" --json)",
             folder_.path());
  ASSERT_EQ(named.exit, 0) << named.err;
  const json line = json::parse(named.out.substr(0, named.out.find('\n')));
  const json& answers = line.at("classes");
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT((std::vector<std::string>{answers[0].at("class"), answers[1].at("class")}),
              testing::UnorderedElementsAre("a photo of a red car.", "a blue car"));
  EXPECT_NEAR(
      answers[0].at("probability").get<double>() + answers[1].at("probability").get<double>(), 1,
      1e-6);

  const Ended by_head = retort("predict run " + photo + " --top 4", folder_.path());
  EXPECT_EQ(by_head.exit, 0) << by_head.err;
  EXPECT_THAT(by_head.out, HasSubstr(",Aston Martin Frame Sedan 2003,"));

  const auto refused = [&](const std::string& name, const std::string& flags,
                           const std::string& what) {
    const Ended ended = retort("predict " + name + ' ' + photo + ' ' + flags, folder_.path());
    EXPECT_NE(ended.exit, 0) << flags;
    EXPECT_THAT(ended.err, HasSubstr(what)) << flags;
    EXPECT_EQ(ended.out, "") << flags;
  };
  refused("run", R"(--labels "")", "the argument after '--labels' is empty");
  refused("run", "--labels " + std::string(80, 'x'), "a caption is longer than the 77 tokens");
  refused("run", "--support cars", "--support is for few-shot models");
  const Ended plain = retort(
      "run classify data=stanford_cars data.root=cars data.image_size=32 model.patch_size=8 "
      "epochs=1 batch_size=32 run.dir=plain",
      folder_.path());
  if (plain.exit != 0) ADD_FAILURE() << plain.err;
  refused("plain", "--labels car", "--labels is for models that read text, but this one does not");
}

TEST_F(ClipCars, InvalidTextInputsAreRejectedBeforeTheRun) {
  expect_refused(R"('data.caption="  "')", 65, "a caption is empty: '  ' [/train]");
  expect_refused("model.tokenizer.context_length=20", 65,
                 "4 captions are longer than the 20 tokens of the text tower's context: 'a photo "
                 "of a AM General ");
  expect_refused("'data.caption=\"a {color} car\"'", 78,
                 "names {color}, but there is no such field");
  folder_.write("merges.txt", "#version\na b</w>\n");
  folder_.write("vocab.json", R"({"a": 0})");
  expect_refused("model.tokenizer.merges=merges.txt model.tokenizer.vocabulary=vocab.json", 65,
                 "'vocab.json' is not a CLIP vocabulary: it lacks the token '!' of the merges "
                 "[/model/tokenizer/vocabulary]");
  expect_refused("model.tokenizer.merges=nowhere.txt", 66,
                 "there is no file 'nowhere.txt' [/model/tokenizer/merges]");
  std::filesystem::remove(folder_ / "cars/cars_test_annos_withlabels.mat");
  expect_refused("", 66, "which contains their classes, is neither in");
}

}  // namespace
