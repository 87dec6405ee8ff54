// End-to-end tests of every shipped recipe and experiment: it validates, is drawn, and runs two
// steps.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/car_listing.h"
#include "tests/support/declared_metrics.h"
#include "tests/support/label_table.h"
#include "tests/support/program.h"
#include "tests/support/shipped_recipes.h"
#include "tests/support/small_clip.h"
#include "tests/support/target_table.h"
#include "tests/support/torch_python.h"

namespace {

std::vector<std::string> trained_presets() {
  std::vector<std::string> names = names_in("experiments");
  std::erase_if(names, [](const std::string& name) { return !has_training(name); });
  return names;
}

/// The folder where report_page_test.py opens the reports; empty: next to the runs.
std::string reports() {
  const char* const folder = std::getenv("RETORT_REPORTS");
  return folder ? std::string(folder) + "/" : "";
}

class ShippedRecipe : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { make_small_data(GetParam(), folder_.path()); }
  std::string with_data() const { return in_small_form(GetParam()); }
  void expect_valid_and_drawn() const {
    const Ended validated = retort("validate " + with_data(), folder_.path());
    EXPECT_EQ(validated.exit, 0) << validated.err;
    const Ended drawn = retort("graph " + with_data(), folder_.path());
    EXPECT_EQ(drawn.exit, 0) << drawn.err;
    EXPECT_THAT(drawn.out, testing::HasSubstr(has_training(GetParam()) ? "train" : "evaluate"));
  }
  TemporaryFolder folder_;
};

TEST_P(ShippedRecipe, IsValidAndCanBeDrawn) { expect_valid_and_drawn(); }

class ShippedRun : public ShippedRecipe {};

TEST_P(ShippedRun, IsValidCanBeDrawnAndRunsTwoSteps) {
  expect_valid_and_drawn();
  if (is_of_python(GetParam()) && !torch_python()) GTEST_SKIP() << kNoTorchPython;
  const Ended ended = retort("run " + with_data() + " --smoke run.dir=run", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/summary.json"));
  const std::string train = has_pairs_of(GetParam()) ? "train.3-4" : "train";
  EXPECT_EQ(std::filesystem::exists(folder_ / ("run/nodes/" + train + "/checkpoints/latest")),
            has_training(GetParam()));
  expect_declared_metrics_in(folder_ / "run");
  const std::string report = "report run -o '" + reports() + GetParam() + ".html'";
  EXPECT_EQ(retort(report, folder_.path()).exit, 0);
}

/// Verbs for runs that start no worker and take milliseconds.
const std::vector<std::string> kTextVerbs = {
    "analyze run",       "analyze run --json", "compare run run",       "runs show run",
    "runs ls .",         "runs best . --all",  "runs diff run run",     "runs status run",
    "runs tag run good", "watch run --once",   "runs status run --json"};

/// True if a verb succeeded, or reported that a record lacks what it needs.
bool is_understood(const Ended& ended) {
  return ended.exit == 0 ||
         ((ended.exit == 64 || ended.exit == 65 || ended.exit == 66 || ended.exit == 78) &&
          !(ended.out + ended.err).empty());
}

/// One epoch on as many classes as the recipe is designed for, with an incomplete last batch.
class WholeEpoch : public testing::TestWithParam<std::string> {
 protected:
  /// Makes folders of generated images in `root`: `classes` folders with `per_class` images each,
  /// named after the root, such as "train_0".
  void make_folders(const std::filesystem::path& root, int classes, int per_class) const {
    if (!std::filesystem::exists(folder_ / "drawn")) {
      const Ended made =
          retort("data make image_folder --out drawn --classes 2 --per-class 12 --size 32 -q",
                 folder_.path());
      ASSERT_EQ(made.exit, 0) << made.err;
    }
    std::vector<std::filesystem::path> pictures;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "drawn")) {
      if (entry.path().extension() == ".jpg") pictures.push_back(entry.path());
    }
    std::ranges::sort(pictures);
    std::size_t next = 0;
    for (int label = 0; label < classes; ++label) {
      const std::filesystem::path folder =
          folder_ / root / (root.filename().string() + "_" + std::to_string(label));
      std::filesystem::create_directories(folder);
      for (int i = 0; i < per_class; ++i) {
        std::filesystem::copy_file(pictures[next++ % pictures.size()],
                                   folder / (std::to_string(100 * label + i) + ".jpg"));
      }
    }
  }
  /// Makes small data for the recipe, and returns its overrides.
  std::string prepared() const {
    const std::string& recipe = GetParam();
    constexpr const char* kQuarters = "'data.split={train: 0.5, validation: 0.25, test: 0.25}' ";
    if (recipe == "quickstart") return "train.batch_size=48 ";  // 640 images
    if (is_of_listing(recipe)) {
      std::filesystem::create_directory(folder_ / "listing");
      EXPECT_EQ(make_car_listing(folder_ / "listing", 24, 12).exit, 0);
      return std::string("data.root=listing data.loader.drop_last=false train.batch_size=16 ") +
             kSmallClip;
    }
    if (is_of_retinas(recipe)) {
      const Ended made = retort(
          "data make fundus_folders --out retinas --per-class 10 --size 48 -q", folder_.path());
      EXPECT_EQ(made.exit, 0) << made.err;
      if (is_of_python(recipe)) {
        return "data.root=retinas data.loader.workers=0 train.batch_size=5 name=resnet18 "
               "vars.pretrained=false " +
               small_in_python(recipe);
      }
      return "data.root=retinas data.image_size=32 data.loader.workers=0 "
             "data.loader.drop_last=false model.weights=null "
             "'model.layers=[1,1,1,1]' train.batch_size=5 memory.precision=fp32 " +
             std::string(recipe == "diabetic_retinopathy_external" ? "external.root=retinas " : "");
    }
    if (recipe.starts_with("fsct")) {
      make_folders("mini/train", 64, 3);
      make_folders("mini/val", 16, 3);
      make_folders("mini/test", 20, 3);
      return "backbone=Conv4 data.root=mini data.train=train data.validation=val data.test=test "
             "data.image_size=32 k_shot=2 n_query=1 train.episodes=6 train.validation_episodes=3 "
             "test_iter=5 ";
    }
    if (recipe.starts_with("finetune")) {
      make_folders("photos", 102, 4);
      return std::string(
                 "data=image_folder data.root=photos model/backbone=tiny data.image_size=28 "
                 "device.select=cpu ") +
             kQuarters + small_text_head(recipe);
    }
    if (recipe == "clip_cars_text_classifier") {
      make_folders("photos", 196, 4);
      return std::string(
                 "data=image_folder data.root=photos model/backbone=tiny data.image_size=28 "
                 "'~data.validation' ") +
             kQuarters + small_text_head(recipe);
    }
    if (recipe == "clip_flowers") {
      make_folders("photos", 12, 12);
      return std::string("data.root=photos ") + kSmallClip;
    }
    if (recipe.starts_with("clip_cars")) {
      make_folders("photos", 196, 4);
      const bool has_captions = recipe == "clip_cars_flyp";
      return std::string("data=image_folder data.root=photos ") + kQuarters + kSmallClip +
             (has_captions ? "train.schedule.warmup_steps=1 '~data.validation' "
                           : "'data.caption=\"a photo of a {name} car\"' ");
    }
    make_folders("photos", 10, 9);
    if (is_of_python(recipe)) {
      make_transformer_for(recipe, folder_.path());
      return std::string("data.root=photos ") + kQuarters + small_in_python(recipe);
    }
    if (recipe == "multi_label") write_label_table(folder_ / "photos");
    if (recipe == "regression") write_target_table(folder_ / "photos");
    const std::string external = recipe == "classify_external"
                                     ? "external.root=photos evaluate_external.allow_trained=true "
                                     : "";
    return external + std::string("data.root=photos data.image_size=32 model.patch_size=8 ") +
           kQuarters;
  }
  bool is_few_shot() const { return GetParam().starts_with("fsct"); }
  bool has_pairs() const { return has_pairs_of(GetParam()); }
  std::string training() const { return has_pairs() ? "train.0-1" : "train"; }
  /// Any image in the test folder but not in the run.
  std::string picture() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      if (entry.path().extension() == ".jpg" &&
          entry.path().string().find("/run/") == std::string::npos)
        return entry.path();
    return "none";
  }
  /// Truncates each text file of the record in turn: no verb may report an internal error. Files
  /// outside nodes/ are the same for all recipes, so each process damages them only once.
  void expect_damage_is_understood() const {
    static std::set<std::string> damaged;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
      const std::string name = entry.path();
      const bool is_text = name.ends_with(".json") || name.ends_with(".jsonl") ||
                           name.ends_with(".yaml") || name.ends_with(".csv");
      const bool is_like_another =
          name.find("/checkpoints/") != name.npos ||
          (name.find("/train.") != name.npos && name.find("/train.0-1") == name.npos);
      if (!entry.is_regular_file() || !is_text || is_like_another) continue;
      const std::string below = entry.path().lexically_relative(folder_ / "run");
      if (below.starts_with("nodes/") || damaged.insert(below).second)
        files.push_back(entry.path());
    }
    EXPECT_FALSE(files.empty());
    for (const std::filesystem::path& file : files) {
      const std::string whole = file_text(file);
      std::ofstream(file) << whole.substr(0, whole.size() / 2);
      for (const char* const verb :
           {"analyze run", "compare run run", "runs show run", "runs status run"}) {
        const Ended ended = retort(verb, folder_.path());
        EXPECT_TRUE(is_understood(ended))
            << verb << " with " << file << ": " << ended.exit << ended.err;
      }
      std::ofstream(file) << whole;
    }
  }
  TemporaryFolder folder_;
};

TEST_P(WholeEpoch, RunsWithAllClassesAndIsAcceptedByEveryVerb) {
  if (is_of_python(GetParam()) && !torch_python()) GTEST_SKIP() << kNoTorchPython;
  const std::string options = prepared();
  if (HasFatalFailure()) return;
  const std::string program = RETORT_BINARY_DIR "/bin/retort ";
  const bool has_steps = GetParam() != "clip_cars_zero_shot";
  const Ended killed =
      run_shell("RETORT_FAULT=retort-worker/step:1:kill_both " + program + "run " + GetParam() +
                    (has_steps ? " train.epochs=1" : "") + " run.dir=run " + options,
                folder_.path());
  EXPECT_EQ(killed.exit, has_steps ? 128 + SIGKILL : 0) << killed.err;
  for (const std::string& verb : kTextVerbs) {
    const Ended ended = retort(verb, folder_.path());
    EXPECT_TRUE(is_understood(ended)) << verb << " of a killed run: " << ended.exit << ended.err;
    EXPECT_THAT(ended.err, testing::Not(testing::HasSubstr("damaged"))) << verb;
  }

  const Ended resumed = retort("resume run", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(file_text(folder_ / "run/summary.json"), testing::HasSubstr("finished"));
  expect_declared_metrics_in(folder_ / "run");
  EXPECT_EQ(retort("report run -o report.html", folder_.path()).exit, 0);
  std::vector<std::string> verbs = kTextVerbs;
  verbs.insert(verbs.end(), {"resume run", "evaluate run run.dir=evaluated", "analyze evaluated"});
  // A comparison draws accuracies, which multi-label runs do not have, and tests whether samples
  // are predicted correctly, which regression runs do not record.
  const bool is_regression = GetParam() == "regression";
  const bool has_accuracy = GetParam() != "multi_label" && !is_regression;
  if (has_accuracy) verbs.emplace_back("compare run evaluated --out drawn");
  if (is_few_shot()) {
    make_folders("five", 5, 3);
    verbs.push_back("predict run " + picture() + " --support five");
    EXPECT_EQ(retort("export run", folder_.path()).exit, 78)
        << "no library supports these networks";
  } else {
    verbs.push_back("predict run " + picture());
    verbs.push_back("export run --merged --out exported --node " + training());
    const bool tests_two_sets = GetParam().ends_with("_external");  // with different samples
    if (!is_regression && !tests_two_sets)
      verbs.emplace_back(
          "compare run evaluated --paired");  // few-shot runs have too few episodes to test
  }
  if (!has_pairs())
    verbs.emplace_back("runs reproduce run run.dir=again");  // ten networks take too long
  for (const std::string& verb : verbs) {
    const Ended ended = retort(verb, folder_.path());
    EXPECT_EQ(ended.exit, 0) << verb << ": " << ended.err;
    EXPECT_NE(ended.out, "") << verb;
    EXPECT_THAT(ended.err, testing::Not(testing::HasSubstr("damaged"))) << verb;
  }
  if (is_regression) EXPECT_EQ(retort("compare run evaluated --paired", folder_.path()).exit, 66);
  expect_damage_is_understood();
  EXPECT_EQ(retort("runs reset run --node " + training(), folder_.path()).exit, 0);
  EXPECT_EQ(retort("runs rm run --yes", folder_.path()).exit, 0);
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

std::vector<std::string> without(std::vector<std::string> names,
                                 const std::vector<std::string>& left_out) {
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::find(left_out, name) != left_out.end();
  });
  return names;
}

/// Recipes with ten networks, or with Python libraries that take seconds to import: only the long
/// tests run them for whole epochs.
const std::vector<std::string> kSlow = {"diabetic_retinopathy", "timm", "torchvision",
                                        "transformers"};

std::vector<std::string> run_whole() { return without(names_in("recipes"), kSlow); }

/// Presets do what their recipes do with other settings, so only the long tests run them for whole
/// epochs.
INSTANTIATE_TEST_SUITE_P(Recipes, WholeEpoch, testing::ValuesIn(run_whole()), name_of);
INSTANTIATE_TEST_SUITE_P(DeepRecipes, WholeEpoch, testing::ValuesIn(kSlow), name_of);
INSTANTIATE_TEST_SUITE_P(DeepPresets, WholeEpoch, testing::ValuesIn(trained_presets()), name_of);

/// Only the long tests run these recipes for two steps: those that are also run for a whole epoch,
/// with the presets for their datasets, and those with ten networks, one of which is run in
/// diabetic_retinopathy_commands_test.cpp.
std::vector<std::string> run_otherwise() {
  std::vector<std::string> names = run_whole();
  names.insert(names.end(),
               {"diabetic_retinopathy", "diabetic_retinopathy_as_coded",
                "diabetic_retinopathy_as_described", "diabetic_retinopathy_published"});
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ShippedRecipe, testing::ValuesIn(run_otherwise()), name_of);
INSTANTIATE_TEST_SUITE_P(All, ShippedRun,
                         testing::ValuesIn(without(shipped_recipes(), run_otherwise())), name_of);
INSTANTIATE_TEST_SUITE_P(DeepRest, ShippedRun, testing::ValuesIn(run_otherwise()), name_of);

TEST(ShippedGroups, EveryOptionIsValidInSomeRecipe) {
  const TemporaryFolder folder;
  for (const std::string group :
       {"data", "model", "memory", "train", "train/loss", "train/optimizer", "train/schedule",
        "evaluate", "model/backbone"}) {
    const auto options = names_in("recipes/" + group);
    EXPECT_FALSE(options.empty()) << group;
    for (const std::string& option : options) {
      std::string said;
      std::string more;
      if (option == "local") more = " model.backbone.weights=weights";
      if (option == "base_models") more = " train=one_vs_one_of_each";  // each requires the other
      if (option == "one_vs_one_of_each") more = " model=base_models";
      if (option == "soup") more = " 'train.runs=[a,b]'";
      if (option == "wise_ft") more = " 'train.runs=[a]'";
      const bool validates = std::ranges::any_of(shipped_recipes(), [&](const std::string& recipe) {
        const Ended ended = retort(
            "graph " + recipe + " data.root=photos " + group + "=" + option + more, folder.path());
        said += ended.err;
        return ended.exit == 0;
      });
      EXPECT_TRUE(validates) << option << ": " << said;
    }
  }
}

}  // namespace
