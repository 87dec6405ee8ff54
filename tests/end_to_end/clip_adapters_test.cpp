// End-to-end tests of CLIP with adapters, from training to exported folders for other libraries,
// and of predictions with CLIP models that have no run. The towers are small, with random weights.

#include <filesystem>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hub_server.h"
#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/small_clip.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTexts = R"( --labels "a photo of a red car." "a blue car" --json)";

class ClipAdapters : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make stanford_cars --out cars --classes 4 --per-class 20 --size 32 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  Ended train(const std::string& name, const std::string& more = "",
              const std::string& fault = "") const {
    return run_shell(
        (fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
            "/bin/retort run clip_cars data.root=cars epochs=2 batch_size=16 lr=0.01 " +
            kSmallClip + "run.dir=" + name + ' ' + more,
        folder_.path());
  }
  std::string weights(const std::string& run) const { return latest_weights(folder_ / run); }
  json parsed(const std::string& file) const { return json::parse(file_text(folder_ / file)); }
  /// What `predict` prints for one image: the probability of each text.
  std::map<std::string, double> said(const std::string& model,
                                     const std::string& variables = "") const {
    const Ended ended = run_shell(variables + " " RETORT_BINARY_DIR "/bin/retort predict " + model +
                                      " cars/cars_test/00001.jpg" + kTexts,
                                  folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::map<std::string, double> result;
    if (ended.exit != 0) return result;
    const json line = json::parse(ended.out.substr(0, ended.out.find('\n')));
    for (const json& one : line["classes"]) result[one["class"]] = one["probability"];
    return result;
  }
  static void expect_same(const std::map<std::string, double>& one,
                          const std::map<std::string, double>& other) {
    ASSERT_EQ(one.size(), 2u);
    for (const auto& [text, probability] : one)
      EXPECT_NEAR(probability, other.at(text), 1e-5) << text;
  }
  SharedFolder folder_;
};

TEST_F(ClipAdapters, CanBeTrainedResumedEvaluatedExportedAndReloaded) {
  const Ended ended = train("run", "model.adapters.rank=4");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("trainable params: "));
  EXPECT_LT(weights("run").size(), 10'000);  // the weights of the two towers take more than 190,000
                                             // bytes
  const std::string killed =
      "model.adapters.rank=4 train.checkpoint.every.steps=1 memory.max_retries=0";
  ASSERT_NE(train("killed", killed, "retort-worker/step:3").exit, 0);
  const Ended resumed = retort("resume killed", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("run").empty());
  EXPECT_TRUE(weights("killed") == weights("run"));
  EXPECT_EQ(retort("evaluate run -q", folder_.path()).exit, 0);

  const Ended exported =
      retort("export run --adapter --out adapter --checkpoint latest", folder_.path());
  ASSERT_EQ(exported.exit, 0) << exported.err;
  for (const char* file :
       {"adapter_config.json", "adapter_model.safetensors", "base/model.safetensors",
        "base/merges.txt", "base/vocab.json", "head.safetensors", "README.md"})
    EXPECT_THAT(exported.out, HasSubstr("adapter/" + std::string(file) + "\n"));
  const json config = parsed("adapter/adapter_config.json");
  EXPECT_EQ(config["auto_mapping"]["base_model_class"], "CLIPModel");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["target_modules"], json({"q_proj", "v_proj"}));

  const Ended again = train("again",
                            "model.weights=adapter/base model.adapters.rank=4 "
                            "model.adapters.adapter=adapter epochs=1 lr=1e-12");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("starts from the adapter in 'adapter'"));
  expect_same(said("run --checkpoint latest"), said("again --checkpoint latest"));
}

TEST_F(ClipAdapters, ExportedModelPredictsWithoutItsRun) {
  ASSERT_EQ(train("run", "model.adapters.targets='text_model.*fc1'").exit, 0);
  ASSERT_EQ(retort("export run --merged --out merged -q", folder_.path()).exit, 0);
  const json config = parsed("merged/config.json");
  EXPECT_EQ(config["text_config"]["vocab_size"], 514);
  EXPECT_EQ(config["vision_config"]["image_size"], 32);
  const auto by_run = said("run");
  fs::remove_all(folder_ / "run");
  expect_same(by_run, said("--model merged"));

  HubServer hub;
  for (const auto& file : fs::directory_iterator(folder_ / "merged"))
    hub.serve(file.path().filename(), file_text(file.path()));
  const std::string variables = "HF_HUB_CACHE=hub HF_ENDPOINT=" + hub.url();
  const std::string predict = " " RETORT_BINARY_DIR
                              "/bin/retort predict --model hf:org/tower cars/cars_test" +
                              std::string(kTexts);
  const Ended offline = run_shell(variables + predict, folder_.path());
  EXPECT_EQ(offline.exit, 66);
  EXPECT_THAT(offline.out, HasSubstr("retort data fetch hf:org/tower"));
  const Ended fetched = run_shell(
      variables + " " RETORT_BINARY_DIR "/bin/retort data fetch hf:org/tower", folder_.path());
  ASSERT_EQ(fetched.exit, 0) << fetched.err;
  EXPECT_THAT(fetched.out, HasSubstr("  merges.txt\n"));
  expect_same(by_run, said("--model hf:org/tower", variables));
}

TEST_F(ClipAdapters, PredictRejectsInvalidModelsAndArguments) {
  ASSERT_EQ(train("run").exit, 0);
  ASSERT_EQ(retort("export run --merged --out merged -q", folder_.path()).exit, 0);
  const auto refused = [&](const std::string& words, int exit, const std::string& what,
                           const std::string& help) {
    const Ended ended = retort("predict " + words, folder_.path());
    EXPECT_EQ(ended.exit, exit) << words;
    EXPECT_THAT(ended.err, HasSubstr(what)) << words;
    EXPECT_THAT(ended.err, HasSubstr(help)) << words;
    EXPECT_EQ(ended.out, "") << words;
  };
  const std::string photo = " cars/cars_test/00001.jpg ";
  refused("", 64, "no model given: neither a run nor --model", "--model FOLDER --labels TEXT");
  refused("run" + photo + "--model merged --labels car", 64,
          "both a run, 'run', and --model 'merged' are given", "leave one of them out");
  refused("--model merged" + photo, 64,
          "--model needs --labels, since such a model has no fixed classes",
          "give the texts to choose from");
  refused("--model merged --labels car", 64, "no image given", "give images or folders of images");
  refused("--model merged" + photo + "--labels \"\"", 64, "the argument after '--labels' is empty",
          "leave it out");
  refused("--model merged --checkpoint best" + photo + "--labels car", 64,
          "--checkpoint is for the model of a run", "leave it out");
  refused("--model merged train.epochs=1" + photo + "--labels car", 64,
          "'train.epochs=1' has no effect", "device=");
  refused("--model nowhere" + photo + "--labels car", 66, "nowhere", "");
  const std::string preprocessor = file_text(folder_ / "merged/preprocessor_config.json");
  folder_.write("merged/preprocessor_config.json", R"({"resample": 0})");
  refused("--model merged" + photo + "--labels car", 78,
          "its 'resample' is 0, but only 2 (bilinear) or 3", "like CLIP");
  folder_.write("merged/preprocessor_config.json", preprocessor);
  fs::remove(folder_ / "merged/merges.txt");
  refused("--model merged" + photo + "--labels car", 66,
          "it has no merges.txt, which is needed to tokenize text",
          "transformers saves it with a CLIP model");
  folder_.write("merged/config.json", R"({"model_type": "vit"})");
  refused("--model merged" + photo + "--labels car", 78, "it describes a 'vit', not a 'clip'",
          "a CLIP model with both towers");
}

}  // namespace
