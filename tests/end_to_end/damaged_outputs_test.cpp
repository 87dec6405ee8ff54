// End-to-end tests of damaged outputs: every file recorded by a run of each family of recipes is
// truncated, altered or replaced by a file in another format. Verbs that read records report the
// file and the remedy, or do without the file.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/small_clip.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

struct RecordedFamily {
  const char* name;
  const char* data;    ///< arguments of `retort data make`
  const char* recipe;  ///< arguments of a small `retort run`
};

const RecordedFamily kRecordedFamilies[] = {
    {"Classification", "image_folder --classes 3 --per-class 6 --size 24",
     "classify data.root=data data.image_size=24 batch_size=4 epochs=1"},
    {"FewShot", "mini_imagenet --classes 12 --per-class 6 --size 32",
     "fsct backbone=Conv4 data.root=data data.image_size=32 n_way=3 k_shot=2 n_query=3 --smoke"},
    {"Contrastive", "stanford_cars --classes 3 --per-class 20 --size 32",
     "clip_cars data.root=data data.loader.drop_last=false --smoke "},
    {"Retina", "fundus_folders --per-class 10 --size 48",
     "diabetic_retinopathy data.root=data data.image_size=32 data.loader.workers=0 "
     "model.weights=null 'model.layers=[1,1,1,1]' train.batch_size=8 memory.precision=fp32 "
     "--smoke"},
    {"FineTuning", "flowers102 --classes 3 --per-class 26 --size 32",
     "finetune model/backbone=tiny model.backbone.num_hidden_layers=1 data.root=data "
     "data.image_size=28 data.loader.workers=0 epochs=1 train.batch_size=8"}};

void PrintTo(const RecordedFamily& family, std::ostream* out) { *out << family.name; }

/// Ways to damage a file: truncate it to half, change some bytes, or replace it with an image or
/// with a table of three columns.
constexpr const char* kDamages[] = {
    "head -c $(($(wc -c <\"$1\") / 2)) \"$1\" >part; cat part >\"$1\"",
    "tr '0123e' '.1x:\"' <\"$1\" >part; cat part >\"$1\"",
    "printf 'GIF89a\\001\\000\\001\\000\\000' >\"$1\"", "printf 'a,b,c\\n1,2\\n\"x\\n' >\"$1\""};

class DamagedOutputs : public testing::TestWithParam<RecordedFamily> {
 protected:
  void SetUp() override {
    const RecordedFamily& family = GetParam();
    if (fs::exists(folder_ / "whole")) {  // made by another test
      ASSERT_EQ(shell("rm -rf run out; cp -r whole run").exit, 0);
      return;
    }
    ASSERT_EQ(shell("retort data make " + std::string(family.data) + " --out data -q").exit, 0);
    const std::string small = std::string(family.name) == "Contrastive" ? kSmallClip : "";
    const Ended ran =
        shell("retort run " + std::string(family.recipe) + small + " run.dir=whole -q");
    ASSERT_EQ(ran.exit, 0) << ran.err;
    ASSERT_EQ(shell("cp -r whole run").exit, 0);
  }
  /// Shell commands that restore a file of `run` and make it the first parameter.
  static std::string restored(const std::string& file) {
    return "set -- 'run/" + file + "'; rm -f \"$1\"; cp 'whole/" + file +
           "' \"$1\"; chmod u+w \"$1\"; ";
  }
  Ended shell(const std::string& commands) const {
    return run_shell(
        "retort() { timeout -k 5 60 " RETORT_BINARY_DIR "/bin/retort \"$@\"; }\n" + commands,
        folder_.path());
  }
  /// The files to damage. If several training nodes are of one kind, only the files of the first.
  /// Files that every run records are damaged only in the first family; in the others, only the
  /// results of their own stages.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    std::string training;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "whole"))
      if (entry.is_regular_file())
        names.push_back(entry.path().lexically_relative(folder_ / "whole"));
    std::ranges::sort(names);
    if (!is_first()) {
      std::erase_if(names, [](const std::string& name) {
        return !name.starts_with("nodes/") || name.find("/checkpoints/") != name.npos;
      });
    }
    std::erase_if(names, [&](const std::string& name) {
      if (!name.starts_with("nodes/train.")) return false;
      const std::string own = name.substr(0, name.find('/', std::string("nodes/").size()));
      if (training.empty()) training = own;
      return own != training;
    });
    return names;
  }
  static bool is_first() { return GetParam().name == std::string(kRecordedFamilies[0].name); }
  void expect_understood(const Ended& ended, const std::string& what) const {
    EXPECT_TRUE(ended.exit < 124 && ended.exit != 70) << what << ": " << ended.exit << ended.err;
    EXPECT_THAT(ended.err, Not(HasSubstr("please report"))) << what;
    if (ended.exit == 0) return;
    // Errors in YAML show the location instead of a remedy.
    EXPECT_THAT(ended.err, testing::AnyOf(HasSubstr("  help: "), HasSubstr("error[E0101]: ")))
        << what;
  }

  /// The folder of the family, which its tests share.
  static const TemporaryFolder& folder_of(const std::string& family) {
    static std::map<std::string, TemporaryFolder> folders;
    return folders[family];
  }

  const TemporaryFolder& folder_ = folder_of(GetParam().name);
};

/// Returns whether a verb is run on a file with this damage. The long tests run every verb; the
/// others take the verbs in turn.
bool is_read_by(std::size_t file, std::size_t damage, std::size_t verb, std::size_t verbs) {
  static const bool is_deep = std::getenv("RETORT_DEEP") != nullptr;
  return is_deep || (file + damage) % verbs == verb;
}

TEST_P(DamagedOutputs, AreHandledByVerbsThatReadRecords) {
  const std::vector<std::string> verbs = {"analyze run --out out", "compare run run --paired",
                                          "runs show run"};
  const std::vector<std::string> all = files();
  ASSERT_GT(all.size(), is_first() ? 25u : 2u);
  for (std::size_t number = 0; number < all.size(); ++number) {
    const std::string& file = all[number];
    std::string commands;
    for (std::size_t damage = 0; damage < std::size(kDamages); ++damage) {
      commands += restored(file) + kDamages[damage] + "\n";
      for (std::size_t verb = 0; verb < verbs.size(); ++verb) {
        if (!is_read_by(number, damage, verb, verbs.size())) continue;
        const std::string to = "said" + std::to_string(damage) + std::to_string(verb);
        commands += "rm -rf out; retort " + verbs[verb] + " >/dev/null 2>" + to + "; echo $? >" +
                    to + ".exit\n";
      }
    }
    shell(commands + restored(file));
    for (std::size_t damage = 0; damage < std::size(kDamages); ++damage) {
      for (std::size_t verb = 0; verb < verbs.size(); ++verb) {
        if (!is_read_by(number, damage, verb, verbs.size())) continue;
        const std::string to = "said" + std::to_string(damage) + std::to_string(verb);
        expect_understood(
            {std::stoi(file_text(folder_ / (to + ".exit"))), "", file_text(folder_ / to)},
            verbs[verb] + " where " + file + " has damage " + std::to_string(damage));
      }
    }
  }
}

/// `retort analyze` reports the file that it cannot read, instead of drawing only a part of the
/// run.
TEST_P(DamagedOutputs, AnalyzeReportsDamagedEvaluationFiles) {
  int refused = 0;
  for (const std::string& file : files()) {
    const fs::path name = fs::path(file).filename();
    if (name != "predictions.csv" && name != "confusion_matrix.csv" && name != "curves.json" &&
        name != "metrics.json" && name != "pair_logits.csv" && name != "evaluation_results.json")
      continue;
    for (const char* damage : kDamages) {
      const Ended ended =
          shell("rm -rf out\n" + restored(file) + damage +
                "\nretort analyze run --out out; exit=$?; " + restored(file) + "exit $exit");
      expect_understood(ended, file);
      if (ended.exit == 0) continue;
      ++refused;
      EXPECT_THAT(ended.err, HasSubstr(name.string())) << file;
    }
  }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, DamagedOutputs, testing::ValuesIn(kRecordedFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
