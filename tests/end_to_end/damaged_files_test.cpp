// End-to-end tests of records with files that are damaged or are not regular files: every verb
// reports them, and none hangs, crashes or reports an internal error.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

void cut_in_half(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }
void empty(const fs::path& file) { fs::resize_file(file, 0); }
void zero(const fs::path& file) {
  const auto size = fs::file_size(file);
  empty(file);
  fs::resize_file(file, size);
}
void flip_bits(const fs::path& file) {
  std::string bytes = file_text(file);
  for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 7) bytes[at] ^= 0x10;
  std::ofstream(file, std::ios::binary) << bytes;
}
void make_folder(const fs::path& file) {
  fs::remove(file);
  fs::create_directory(file);
}
void make_loop(const fs::path& file) {
  fs::remove(file);
  fs::create_symlink(file.filename(), file);
}
void make_pipe(const fs::path& file) {
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
}
void remove(const fs::path& file) { fs::remove(file); }

/// One way to damage a file.
struct Damage {
  const char* name;
  void (*action)(const fs::path& file);
};
constexpr Damage kNoFiles[] = {
    {"a folder", make_folder}, {"a loop of links", make_loop}, {"a pipe", make_pipe}};
constexpr Damage kBytes[] = {{"half", cut_in_half},
                             {"empty", empty},
                             {"zeros", zero},
                             {"flipped", flip_bits},
                             {"gone", remove}};

class DamagedFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    ASSERT_EQ(
        shell("retort data make image_folder --out photos --classes 3 --per-class 6 --size 24 -q")
            .exit,
        0);
    const Ended ran = shell(run_as("whole"));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    ASSERT_EQ(shell("export RETORT_FAULT=retort-worker/step:3:kill_both; " + run_as("killed")).exit,
              128 + SIGKILL);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string run_as(const std::string& name) {
    return "retort run classify data.root=photos data.image_size=24 batch_size=4 epochs=1 "
           "'train.checkpoint.every={steps: 1}' -q run.dir=" +
           name;
  }
  /// Runs shell commands in which `retort` is the program under test, with a timeout.
  static Ended shell(const std::string& commands) {
    return run_shell(
        "retort() { timeout -k 5 60 " RETORT_BINARY_DIR "/bin/retort \"$@\"; }\n" + commands,
        folder_->path());
  }
  /// Makes `run` a copy of the given run, and removes the output of earlier verbs.
  static void copy(const std::string& run) {
    for (const char* name : {"run", "out"}) fs::remove_all(*folder_ / name);
    fs::copy(*folder_ / run, *folder_ / "run",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  static std::vector<std::string> files_of(const std::string& run) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(*folder_ / run))
      if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(*folder_ / run));
    std::ranges::sort(names);
    return names;
  }
  /// Runs each of `verbs` on a copy of `run`, once per damage to `file`. Only the long tests run
  /// every verb that starts a worker; otherwise these verbs take turns.
  template <typename Damages>
  static void expect_understood(const std::string& run, const std::string& file,
                                const Damages& damages, const std::vector<std::string>& verbs) {
    for (const Damage& damage : damages) {
      copy(run);
      damage.action(*folder_ / "run" / file);
      ++turn_;
      for (const std::string& verb : verbs) {
        const bool is_quick = !verb.ends_with(" -q");
        if (!is_quick && !std::getenv("RETORT_DEEP") && verb != verbs[turn_ % verbs.size()])
          continue;
        fs::remove_all(*folder_ / "out");
        const Ended ended = shell("retort " + verb);
        EXPECT_TRUE(ended.exit < 124 && ended.exit != 70)
            << verb << " where " << file << " is " << damage.name << ": " << ended.exit
            << ended.err;
        EXPECT_THAT(ended.err, Not(HasSubstr("please report")))
            << verb << " where " << file << " is " << damage.name;
      }
    }
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::size_t turn_;
};
std::unique_ptr<TemporaryFolder> DamagedFiles::folder_;
std::size_t DamagedFiles::turn_ = 0;

TEST_F(DamagedFiles, VerbsThatReadRecordsHandleNonRegularFiles) {
  const std::vector<std::string> files = files_of("whole");
  EXPECT_GT(files.size(), 20u);
  for (const std::string& file : files) {
    expect_understood("whole", file, std::span(kNoFiles).first(2),
                      {"analyze run --out out", "runs show run"});
    expect_understood("whole", file, std::span(kNoFiles).last(1),
                      {"analyze run --out out", "compare run run --out out", "runs show run",
                       "runs ls .", "watch run --once"});
  }
}

TEST_F(DamagedFiles, DamagedWeightsAreHandled) {
  const std::vector<std::string> verbs = {"predict run photos -q", "export run --out out -q",
                                          "evaluate run run.dir=out -q"};
  std::vector<std::string> weights;
  for (const std::string& file : files_of("whole"))
    if (file.ends_with("/model.safetensors")) weights.push_back(file);
  ASSERT_FALSE(weights.empty());
  expect_understood("whole", weights.back(), kBytes, verbs);
  expect_understood("whole", weights.back(), kNoFiles, verbs);
  for (const std::string file : {"nodes/train/checkpoints/best", "nodes/data/division.gz"}) {
    expect_understood("whole", file, kBytes,
                      {"predict run photos -q", "evaluate run run.dir=out -q"});
    expect_understood("whole", file, kNoFiles,
                      {"predict run photos -q", "evaluate run run.dir=out -q"});
  }
}

TEST_F(DamagedFiles, PredictHandlesADamagedRecipe) {
  for (const char* file : {".retort/recipe.yaml", ".retort/environment.json"})
    expect_understood("whole", file, kBytes, {"predict run photos -q"});
}

TEST_F(DamagedFiles, ResumeHandlesDamagedState) {
  const std::string saved = "nodes/train/checkpoints/";
  std::string latest = file_text(*folder_ / "killed" / saved / "latest");
  latest = latest.substr(0, latest.find('\n'));
  for (const std::string& file :
       {saved + latest + "/model.safetensors", saved + latest + "/optimizer.safetensors",
        saved + latest + "/state.json", saved + "latest", std::string("nodes/data/division.gz"),
        std::string("metrics.jsonl"), std::string(".retort/environment.json")}) {
    ASSERT_TRUE(fs::exists(*folder_ / "killed" / file)) << file;
    expect_understood("killed", file, kNoFiles, {"resume run -q"});
    if (!file.ends_with(".json") && !file.ends_with(".jsonl"))
      expect_understood("killed", file, kBytes, {"resume run -q"});
  }
}

TEST_F(DamagedFiles, SymbolicLinkIsNeitherCopiedNorWrittenThrough) {
  constexpr char kOther[] = "of somebody else: 3141592653\n";
  for (const std::string file :
       {"log.txt", "metrics.jsonl", "summary.json", ".retort/environment.json",
        ".retort/recipe.yaml", ".retort/graph.json", "nodes/train/checkpoints/latest",
        "nodes/data/division.gz"}) {
    copy("killed");
    ASSERT_TRUE(fs::exists(*folder_ / "run" / file)) << file;
    folder_->write("other", kOther);
    fs::remove(*folder_ / "run" / file);
    fs::create_symlink(*folder_ / "other", *folder_ / "run" / file);
    const Ended ended = shell("retort resume run -q");
    EXPECT_TRUE(ended.exit < 124 && ended.exit != 70) << file << ": " << ended.exit << ended.err;
    EXPECT_EQ(file_text(*folder_ / "other"), kOther) << file;
    for (const auto& entry : fs::recursive_directory_iterator(*folder_ / "run")) {
      if (entry.is_regular_file() && !entry.is_symlink())
        EXPECT_EQ(file_text(entry.path()).find("3141592653"), std::string::npos)
            << file << " in " << entry.path();
    }
  }
}

TEST_F(DamagedFiles, FullDiskLeavesNoPartialRecordFiles) {
  const auto watched = [&](const std::string& action) {
    fs::remove_all(*folder_ / "seen");
    fs::create_directory(*folder_ / "seen");
    return shell("export LD_PRELOAD=" RETORT_WRITING_CALLS
                 " WRITING_CALLS=below:$PWD/disk,in:$PWD/seen" +
                 action + "\n" + run_as("disk/run"));
  };
  fs::create_directory(*folder_ / "disk");
  ASSERT_EQ(watched("").exit, 0);
  std::istringstream calls(file_text(*folder_ / "seen/calls"));
  std::vector<std::string> of_the_record;  // each call's number within the program
  std::string number, program, own, rest;
  while (calls >> number >> program >> own && std::getline(calls, rest)) {
    if (program == "retort" && rest.find("/.retort/") != rest.npos &&
        rest.find(".json") != rest.npos &&
        (rest.starts_with(" write") || rest.starts_with(" rename")))
      of_the_record.push_back(own);
  }
  ASSERT_GE(of_the_record.size(), 3u);
  for (const std::string& call : of_the_record) {
    fs::remove_all(*folder_ / "disk");
    fs::create_directory(*folder_ / "disk");
    const Ended ended = watched(",fail:retort:" + call + ":28");
    EXPECT_TRUE(ended.exit < 124 && ended.exit != 70) << call << ": " << ended.exit << ended.err;
    for (const char* name : {"environment.json", "graph.json", "run.json"}) {
      const fs::path file = *folder_ / "disk/run/.retort" / name;
      if (fs::exists(file))
        EXPECT_TRUE(nlohmann::json::accept(file_text(file))) << call << ": " << file;
    }
  }
}

TEST_F(DamagedFiles, DataMakeRemovesTheDraftOfAKilledDataMake) {
  fs::create_directories(*folder_ / "drafts");
  fs::create_directory(*folder_ / "watch");
  const std::string make =
      "retort data make image_folder --out drafts/made --classes 2 --per-class 9 --size 16 -q";
  const Ended killed =
      shell("export LD_PRELOAD=" RETORT_WRITING_CALLS
            " WRITING_CALLS=below:$PWD/drafts,in:$PWD/watch,kill:retort-worker:20\n" +
            make);
  EXPECT_NE(killed.exit, 0);
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(*folder_ / "drafts"))
      found.push_back(entry.path().filename());
    return found;
  };
  ASSERT_EQ(names().size(), 1u);
  ASSERT_THAT(names()[0], testing::EndsWith(".part"));
  const Ended made = shell(make);
  EXPECT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(names(), testing::ElementsAre("made"));
}

TEST_F(DamagedFiles, EveryVerbAcceptsRerunsAndTrials) {
  ASSERT_EQ(shell("retort runs rerun whole run.dir=again -q").exit, 0);
  const Ended swept = shell(
      "retort sweep classify data.root=photos data.image_size=24 batch_size=4 epochs=1 seed=1,2 "
      "sweep.dir=s -q");
  ASSERT_EQ(swept.exit, 0) << swept.err;
  for (const std::string run : {"again", "s/0"}) {
    fs::remove_all(*folder_ / "out");
    for (const std::string& verb : std::vector<std::string>{
             "analyze " + run, "compare " + run + " whole", "runs show " + run,
             "runs status " + run, "runs diff " + run + " whole", "watch " + run + " --once",
             "predict " + run + " photos -q", "resume " + run, "export " + run + " --out out",
             "evaluate " + run + " run.dir=out/e", "runs tag " + run + " good", "runs ls .",
             "runs reindex .", "runs rerun " + run + " run.dir=out/r",
             "runs reproduce " + run + " run.dir=out/p", "runs reset " + run + " --node evaluate",
             "runs rm " + run + " --yes"}) {
      const Ended ended = shell("retort " + verb);
      EXPECT_EQ(ended.exit, 0) << verb << ": " << ended.exit << ended.err;
    }
  }
  // A sweep's folder is not a run folder: verbs for runs say so, and verbs for sweeps accept it
  // although one of its runs is missing.
  for (const std::string verb :
       {"analyze s", "compare s whole", "runs show s", "runs status s", "runs diff s whole",
        "predict s photos", "resume s", "export s", "evaluate s", "runs tag s x", "runs rerun s",
        "runs reproduce s", "runs rm s --yes"}) {
    const Ended ended = shell("retort " + verb);
    EXPECT_TRUE(ended.exit == 64 || ended.exit == 65 || ended.exit == 66 || ended.exit == 78 ||
                ended.exit == 0)
        << verb << ": " << ended.exit << ended.err;
  }
}

}  // namespace
