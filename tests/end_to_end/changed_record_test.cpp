// End-to-end tests of resuming or evaluating a run after its data, recipe, checkpoints or
// environment have changed.

#include <filesystem>
#include <regex>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ChangedRecord : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 3 --per-class 8 --size 16 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write(
        "r.yaml",
        "schema: 1\n"
        "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
        "from_scratch}, _self_]\n"
        "threads: 1\n"
        "data: {root: photos, image_size: 16, split: {train: 0.5, validation: 0.25, test: 0.25}}\n"
        "model: {patch_size: 8, num_hidden_layers: 1, hidden_size: 16, intermediate_size: 32, "
        "num_attention_heads: 2}\n"
        "train: {epochs: 2, batch_size: 4, log_every: 1, checkpoint: {every: {steps: 1}}}\n"
        "evaluate: {kind: evaluate.classification}\n");
    folder_.keep();
  }
  Ended train(const std::string& name, const std::string& fault = "",
              const std::string& more = "") const {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
                         "/bin/retort run r.yaml " + "memory.max_retries=0 -q run.dir=" + name +
                         ' ' + more,
                     folder_.path());
  }
  /// Trains a run and kills it after its third step.
  void train_to_the_third_step(const std::string& name, const std::string& more = "") const {
    ASSERT_NE(train(name, "retort-worker/step:3:kill", more).exit, 0);
    ASSERT_TRUE(fs::exists(folder_ / name / "nodes/train/checkpoints/latest"));
  }
  Ended resume(const std::string& words) const { return retort("resume " + words, folder_.path()); }
  std::string predictions(const std::string& run) const {
    return file_text(folder_ / run / "nodes/evaluate/predictions.csv");
  }
  /// The images of a class, sorted.
  std::vector<fs::path> photos(const std::string& name) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "photos" / name))
      found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }
  std::string first_class() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "photos"))
      if (entry.is_directory()) names.push_back(entry.path().filename());
    return *std::ranges::min_element(names);
  }
  void edit_recipe(const std::string& run, const std::string& from, const std::string& to) const {
    const std::string text = file_text(folder_ / run / ".retort/recipe.yaml");
    const std::string edited = std::regex_replace(text, std::regex(from), to);
    ASSERT_NE(edited, text);
    folder_.write(run + "/.retort/recipe.yaml", edited);
  }
  SharedFolder folder_;
};

TEST_F(ChangedRecord, MissingImagePreventsResuming) {
  ASSERT_EQ(train("whole").exit, 0);
  train_to_the_third_step("run");
  const fs::path photo = photos(first_class()).front();
  fs::rename(photo, folder_ / "aside.jpg");
  const Ended refused = resume("run");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("error[E0807]: the input /data/root was 24 files with "));
  EXPECT_THAT(refused.err,
              HasSubstr("restore it, or add --force, in which case the result may differ"));
  EXPECT_FALSE(fs::exists(folder_ / "run/.retort/resume-1"));

  fs::rename(folder_ / "aside.jpg", photo);
  const Ended gone_on = resume("run");
  EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, Not(HasSubstr("E0807")));
  EXPECT_EQ(predictions("run"), predictions("whole"));

  train_to_the_third_step("forced");
  fs::remove(photo);
  const Ended forced = resume("forced --force");
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning[E0807]: the input /data/root was 24 files with "));
}

TEST_F(ChangedRecord, EvaluationUsesTheDataOfTheTrainingRun) {
  ASSERT_EQ(train("run").exit, 0);
  ASSERT_EQ(retort("evaluate run -q run.dir=same", folder_.path()).exit, 0);
  EXPECT_EQ(predictions("same"), predictions("run"));
  fs::copy(folder_ / "photos", folder_ / "others", fs::copy_options::recursive);
  fs::copy_file(photos(first_class()).front(), folder_ / "photos" / first_class() / "0new.jpg");
  const Ended refused = retort("evaluate run run.dir=changed", folder_.path());
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("error[E0807]: the input /data/root was 24 files with "));
  EXPECT_FALSE(fs::exists(folder_ / "changed"));
  EXPECT_EQ(retort("evaluate run --force run.dir=forced", folder_.path()).exit, 0);
  const Ended other =
      retort("evaluate run data.root=others data.split.test=0.25 run.dir=other", folder_.path());
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.err, Not(HasSubstr("E0807")));
}

TEST_F(ChangedRecord, GeneratedDataIsCheckedAndRegenerated) {
  const std::string make = "data.root=drawn '+data.make={classes: 2, per_class: 8, size: 16}'";
  train_to_the_third_step("run", make);
  fs::path one;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "drawn"))
    if (entry.path().extension() == ".jpg") one = entry.path();
  fs::remove(one);
  const Ended refused = resume("run");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the input /data/root was 16 files with "));
  fs::remove_all(folder_ / "drawn");
  const Ended made_again = resume("run");
  EXPECT_EQ(made_again.exit, 0) << made_again.err;
  EXPECT_EQ(retort("runs rerun run run.dir=again -q", folder_.path()).exit, 0);
  EXPECT_EQ(predictions("again"), predictions("run"));
}

TEST_F(ChangedRecord, EditedRecipeIsReported) {
  train_to_the_third_step("run");
  edit_recipe("run", "seed: 0\n", "seed: 1\n");
  const Ended refused = resume("run");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("error[E0807]: 'run/.retort/recipe.yaml' was edited: it is no "
                                     "longer the recipe that the run used"));
  const Ended forced = resume("run --force");
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning[E0807]: 'run/.retort/recipe.yaml' was edited"));
  EXPECT_THAT(resume("run").err, HasSubstr("there is nothing to resume"));

  ASSERT_EQ(train("whole").exit, 0);
  edit_recipe("whole", "image_size: 16\n", "image_size: 24\n");
  EXPECT_EQ(retort("evaluate whole", folder_.path()).exit, 78);
  const Ended again = retort("runs rerun whole run.dir=again", folder_.path());
  EXPECT_EQ(again.exit, 78);
  EXPECT_THAT(again.err, HasSubstr("'whole/.retort/recipe.yaml' was edited"));
}

TEST_F(ChangedRecord, CheckpointFromAnotherRunIsRejected) {
  ASSERT_EQ(train("whole").exit, 0);
  ASSERT_EQ(train("other", "", "seed=7").exit, 0);
  train_to_the_third_step("run");
  fs::remove_all(folder_ / "run/nodes/train/checkpoints");
  fs::copy(folder_ / "other/nodes/train/checkpoints", folder_ / "run/nodes/train/checkpoints",
           fs::copy_options::recursive);
  const Ended refused = resume("run");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("belongs to another training run [/train]"));
  const Ended forced = resume("run --force");
  EXPECT_EQ(forced.exit, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning[E0807]: the checkpoint '"));

  fs::remove_all(folder_ / "whole/nodes/train/checkpoints");
  fs::copy(folder_ / "other/nodes/train/checkpoints", folder_ / "whole/nodes/train/checkpoints",
           fs::copy_options::recursive);
  const std::string photo = " " + photos(first_class()).front().string();
  const std::vector<std::string> verbs = {"evaluate whole", "predict whole" + photo,
                                          "export whole --out exported"};
  for (const std::string& verb : verbs) {
    const Ended ended = retort(verb, folder_.path());
    EXPECT_EQ(ended.exit, 78) << verb;
    EXPECT_THAT(ended.err, HasSubstr("specify the checkpoint to use: --checkpoint FOLDER")) << verb;
  }
  std::string best = file_text(folder_ / "other/nodes/train/checkpoints/latest");
  best.pop_back();
  const Ended named = retort(
      "predict whole --checkpoint whole/nodes/train/checkpoints/" + best + photo, folder_.path());
  EXPECT_EQ(named.exit, 0) << named.err;
}

TEST_F(ChangedRecord, RepeatedResumesWithDifferentOptionsCauseNoWarnings) {
  const std::string schedule = "'train.schedule={kind: constant}'";
  train_to_the_third_step("run", schedule);
  for (const char* words : {"data.loader.workers=0", "train.epochs=3",
                            "train.epochs=4 train.optimizer.learning_rate=0.002 --force", ""}) {
    const Ended gone_on = resume("run " + std::string(words));
    EXPECT_EQ(gone_on.exit, 0) << words << gone_on.err;
    EXPECT_THAT(gone_on.err, Not(HasSubstr("E0807"))) << words;
  }
  EXPECT_EQ(retort("evaluate run -q run.dir=e", folder_.path()).exit, 0);
}

TEST_F(ChangedRecord, ChangedEnvironmentCausesWarningsOnResume) {
  train_to_the_third_step("run");
  json environment = json::parse(file_text(folder_ / "run/.retort/environment.json"));
  environment["retort"] = "0.0.1-older";
  environment["versions"]["libtorch"] = "1.0";
  environment["cpu"]["model"] = "an abacus";
  folder_.write("run/.retort/environment.json", environment.dump());
  const Ended gone_on = resume("run");
  EXPECT_EQ(gone_on.exit, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, HasSubstr("warning[E0807]: the build was 0.0.1-older and is now "));
  EXPECT_THAT(gone_on.err, HasSubstr("warning[E0807]: the LibTorch was 1.0 and is now "));
  EXPECT_THAT(gone_on.err, HasSubstr("warning[E0807]: the processor was an abacus and is now "));

  train_to_the_third_step("kinds");
  json graph = json::parse(file_text(folder_ / "kinds/.retort/graph.json"));
  for (json& node : graph["nodes"]) node["version"] = 99;
  folder_.write("kinds/.retort/graph.json", graph.dump());
  const Ended refused = resume("kinds");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("had version 99 and now has version "));
}

TEST_F(ChangedRecord, ImageChangedDuringTrainingFailsTheRunButKeepsItsWeights) {
  const fs::path photo = photos(first_class()).front(), another = photos(first_class()).back();
  const Ended ended =
      run_shell(std::string(RETORT_BINARY_DIR) +
                    "/bin/retort run r.yaml train.epochs=60 run.dir=run -q & run=$!; "
                    "while [ ! -e run/nodes/train/checkpoints/latest ]; do sleep 0.02; done; cp '" +
                    another.string() + "' new; mv new '" + photo.string() + "'; wait $run",
                folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err,
              HasSubstr("error[E0807]: the input /data/root has other files: 24 files with "));
  EXPECT_THAT(ended.err, HasSubstr("it was changed during the run"));
  EXPECT_EQ(json::parse(file_text(folder_ / "run/summary.json"))["status"], "failed");
  const Ended refused = resume("run");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err, HasSubstr("the input /data/root was changed during the run"));
  const Ended accepted = resume("run --force");
  EXPECT_EQ(accepted.exit, 0) << accepted.err;
  EXPECT_THAT(accepted.err, Not(HasSubstr("epoch ")));
  EXPECT_EQ(json::parse(file_text(folder_ / "run/summary.json"))["status"], "finished");
}

TEST_F(ChangedRecord, EditedTrialRecipeIsReported) {
  ASSERT_NE(
      run_shell("RETORT_FAULT=retort-worker/step:3:kill " RETORT_BINARY_DIR
                "/bin/retort sweep r.yaml memory.max_retries=0 'seed=range(0,2)' sweep.dir=s -q",
                folder_.path())
          .exit,
      0);
  edit_recipe("s/0", "learning_rate: [^\n]*\n", "learning_rate: 0.5\n");
  const Ended edited = retort("sweep resume s", folder_.path());
  EXPECT_EQ(edited.exit, 65);
  EXPECT_THAT(edited.err, HasSubstr("s/0/.retort/recipe.yaml' was edited"));
}

}  // namespace
