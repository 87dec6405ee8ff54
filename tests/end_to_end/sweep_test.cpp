// End-to-end tests of sweeps: run, killed and resumed, and compared with an undisturbed one.

#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

class Sweep : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 4 --size 32 -q",
                     folder_.path())
                  .exit,
              0);
    folder_.keep();
  }
  static std::string command(const std::string& dir, const std::string& more = "") {
    return RETORT_BINARY_DIR
           "/bin/retort sweep classify data.root=photos data.image_size=32 model.patch_size=8 "
           "model.num_hidden_layers=1 threads=1 train.epochs=2 train.checkpoint.every.steps=1 "
           "'seed=range(0,3)' "
           "train.optimizer.learning_rate=0.001,0.01 sweep.dir=" +
           dir + " " + more;
  }
  Ended sweep(const std::string& dir, const std::string& more = "") const {
    return run_shell(command(dir, more), folder_.path());
  }
  /// Makes the sweep `one`, which tests share, unless it exists; returns what it printed.
  const Ended& make_one() const {
    static Ended ended;
    if (!std::filesystem::exists(folder_ / "one")) {
      ended = sweep("one", "--slots 1");
      folder_.keep();
    }
    return ended;
  }
  /// The results without the values that differ from run to run.
  json results(const std::string& dir, const std::string& command = "") const {
    json all = command.empty() ? json::parse(file_text(folder_ / (dir + "/results.json")))
                               : json::parse(retort(command, folder_.path()).out)["result"];
    all.erase("folder");
    for (json& trial : all["trials"]) {
      trial.erase("seconds");
      trial.erase("attempts");
      trial.erase("overrides");      // these contain its folder
      trial.erase("planned_bytes");  // planned only for the remaining work after a resume
      for (auto metric = trial["metrics"].begin(); metric != trial["metrics"].end();)
        metric = metric.key().starts_with("memory/") ? trial["metrics"].erase(metric)
                                                     : std::next(metric);
    }
    return all;
  }
  std::string weights(const std::string& dir, int trial) const {
    const std::filesystem::path checkpoints =
        folder_ / (dir + "/" + std::to_string(trial) + "/nodes/train/checkpoints");
    std::string best = file_text(checkpoints / "best");
    if (!best.empty()) best.pop_back();
    return file_text(checkpoints / best / "model.safetensors");
  }
  SharedFolder folder_;
};

TEST_F(Sweep, SlotsDoNotChangeResults) {
  const Ended& one = make_one();
  ASSERT_EQ(one.exit, 0) << one.err;
  EXPECT_THAT(one.err, testing::Not(HasSubstr("at a time"))) << "one slot needs no plans";
  EXPECT_THAT(one.out, HasSubstr("best: trial "));
  EXPECT_THAT(one.out, testing::EndsWith("\n" + (folder_ / "one").string() + "\n"));
  const Ended four = sweep("four", "--slots 4");
  ASSERT_EQ(four.exit, 0) << four.err;
  EXPECT_THAT(
      four.err,
      ContainsRegex(
          "4 trials at a time, each with [0-9]+ of the processor's threads where the recipe "
          "says threads: auto; together they need at most [0-9.]+ [MG]iB of the "));
  EXPECT_TRUE(results("four") == results("one"));
  for (int trial = 0; trial < 6; ++trial) {
    EXPECT_FALSE(weights("one", trial).empty());
    EXPECT_TRUE(weights("four", trial) == weights("one", trial)) << trial;
  }
}

TEST_F(Sweep, TrialsThatDoNotFitTogetherAreRejected) {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  std::int64_t kibibytes = 0;
  meminfo >> word >> kibibytes;
  const std::int64_t slots =
      (kibibytes >> 10) / 100;  // the processes of a trial alone need more than that
  if (slots > 1024) GTEST_SKIP() << "that many slots cannot be requested";
  const std::string trials =
      "classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 'seed=range(0," +
      std::to_string(slots) + ")' sweep.dir=s ";
  const Ended refused =
      retort("sweep " + trials + "--slots " + std::to_string(slots), folder_.path());
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(
      refused.err,
      ContainsRegex("error\\[E0706\\]: " + std::to_string(slots) +
                    " trials at a time may need [0-9.]+ GiB of the .*, [0-9.]+ [MG]iB: the plans "
                    "of trials 0, 1, 2, 3 and [0-9]+ more together"));
  EXPECT_THAT(refused.err, ContainsRegex("help: --slots [0-9]+ fits; use smaller batches"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s")) << "nothing was started";
}

TEST_F(Sweep, AutoUsesAsManySlotsAsFit) {
  const Ended listed = sweep("s", "--slots auto --dry-run");
  EXPECT_EQ(listed.exit, 0) << listed.err;
  EXPECT_THAT(listed.err, ContainsRegex("--slots auto: [0-9]+ trials? at a time"));
  EXPECT_THAT(sweep("s", "--slots many").err,
              HasSubstr("error[E0501]: --slots is 'many'\n  help: write a number from 1 to 1024, "
                        "or auto: as many trials at once as fit\n"));
  const Ended ended = sweep("s", "--slots auto train.epochs=1");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Ended resumed = retort("sweep resume s --slots auto", folder_.path());
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
}

/// The answers of a sampler that proposes three trials and then stops.
constexpr const char* kThreeTrials =
    "{\"ask\": 0, \"settings\": {\"seed\": 10}}\n{\"ask\": 1, \"settings\": {\"seed\": 11}}\n"
    "{\"ask\": 2, \"settings\": {\"seed\": 12}}\n{\"stop\": true}\n";

/// A recipe with short trials.
constexpr const char* kDataAlone =
    "schema: 1\ndevice: cpu\ndata: {kind: data.image_folder, root: photos}\n";

TEST_F(Sweep, SamplerGetsEveryResultAfterAKillAtAnyPoint) {
  folder_.write("answers", kThreeTrials);
  folder_.write("data.yaml", kDataAlone);
  const std::string retort = RETORT_BINARY_DIR "/bin/retort sweep ask-tell ";
  int killed = 0;
  for (int count = 1; count < 200; count += 7) {
    std::filesystem::remove_all(folder_ / "s");
    const Ended first = run_shell("RETORT_FAULT=retort/any:" + std::to_string(count) + " " +
                                      retort + "data.yaml sweep.dir=s --retries 3 <answers",
                                  folder_.path());
    if (first.exit == 0) break;  // the command has fewer points than that
    if (!std::filesystem::exists(folder_ / "s/sweep.jsonl")) continue;
    ++killed;
    const Ended ended = run_shell(retort + "resume s <answers", folder_.path());
    ASSERT_EQ(ended.exit, 0) << count << ended.err;
    std::map<int, int> told;
    std::istringstream out(ended.out);
    json last;
    for (std::string line; std::getline(out, line);) {
      last = json::parse(line);
      if (!last.contains("tell")) continue;
      ++told[last["tell"].get<int>()];
      EXPECT_EQ(last["state"], "finished") << count;
    }
    EXPECT_EQ(told, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}})) << count << ended.out;
    const json trials = last["results"]["trials"];
    ASSERT_EQ(trials.size(), 3u) << count << ": no trial is requested twice";
    for (int trial = 0; trial < 3; ++trial)
      EXPECT_EQ(trials[trial]["overrides"], json::array({"seed=" + std::to_string(10 + trial)}))
          << count;
  }
  EXPECT_GE(killed, 5);
}

TEST_F(Sweep, AskTellResumesOnlyItsOwnSweeps) {
  folder_.write("data.yaml", kDataAlone);
  ASSERT_EQ(retort("sweep data.yaml seed=1,2 sweep.dir=s", folder_.path()).exit, 0);
  const Ended refused = retort("sweep ask-tell resume s", folder_.path());
  EXPECT_EQ(refused.exit, 64);
  EXPECT_THAT(refused.err, HasSubstr("error[E0501]: the trials of '"));
  EXPECT_EQ(retort("sweep ask-tell resume", folder_.path()).exit, 64);
  EXPECT_THAT(retort("sweep ask-tell resume nowhere", folder_.path()).err,
              HasSubstr("'nowhere' contains no sweep"));
}

TEST_F(Sweep, ResumedSweepGivesTheSameResults) {
  ASSERT_EQ(make_one().exit, 0);
  const std::pair<const char*, const char*> victims[] = {
      {"sweep", "$sweep"},
      {"trials", "$(pgrep -P $sweep)"},
      {"workers", "$(for trial in $(pgrep -P $sweep); do pgrep -P $trial; done)"},
      {"all", "$sweep $(for trial in $(pgrep -P $sweep); do echo $trial; pgrep -P $trial; done)"},
  };
  for (const auto& [name, processes] : victims) {
    const std::string dir = std::string("killed_") + name;
    run_shell(command(dir, "--slots 2") +
                  " & sweep=$!\nfor i in $(seq 600); do grep -q '\"trial\":3,' " + dir +
                  "/sweep.jsonl 2>/dev/null && break; sleep 0.05; done; kill -9 " + processes +
                  "; wait $sweep; true",
              folder_.path());
    const json states = results(dir, "sweep show " + dir + " --json")["trials"];
    EXPECT_TRUE(std::ranges::any_of(states, [](const json& trial) {
      return trial["state"] != "finished";
    })) << name;
    const Ended resumed = retort("sweep resume " + dir + " --slots 2", folder_.path());
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(results(dir) == results("one")) << name;
    for (int trial = 0; trial < 6; ++trial)
      EXPECT_TRUE(weights(dir, trial) == weights("one", trial)) << name << trial;
  }
}

TEST_F(Sweep, FailureIsReportedAndCounted) {
  const Ended failed =
      run_shell(RETORT_BINARY_DIR
                "/bin/retort sweep classify data.root=photos,nowhere data.image_size=32 "
                "model.patch_size=8 train.epochs=1 threads=1 sweep.dir=s",
                folder_.path());
  EXPECT_EQ(failed.exit, 3);
  EXPECT_THAT(failed.err, HasSubstr("trial 1 failed (data.root=nowhere): error["));
  EXPECT_THAT(failed.err, HasSubstr("continue with `retort sweep resume "));
  EXPECT_THAT(failed.out, testing::ContainsRegex("failed .* nowhere "));
  std::filesystem::create_directory_symlink("photos", folder_ / "nowhere");
  const Ended resumed = retort("sweep resume s --json", (folder_ / "photos"));
  EXPECT_NE(resumed.exit, 0) << "the sweep does not exist there";
  const Ended whole = retort("sweep resume ../s --json", folder_ / "photos");
  EXPECT_EQ(whole.exit, 0) << whole.err;
  EXPECT_EQ(json::parse(whole.out)["result"]["trials"][1]["state"], "finished")
      << "from another folder, too";
}

TEST_F(Sweep, EverySeedIsTestedOnTheSameImages) {
  const auto tested = [&](const std::string& more) {
    const Ended ended = run_shell(
        RETORT_BINARY_DIR
            "/bin/retort sweep classify data.root=photos data.image_size=32 model.patch_size=8 "
            "threads=1 train.epochs=1 data.split.train=0.5 data.split.test=0.25 "
            "data.split.validation=0.25 sweep.dir=s -q " +
            more,
        folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::set<std::string> names;
    for (const char* trial : {"0", "1", "2"}) {
      std::string all;
      std::istringstream lines(file_text(folder_ / "s" / trial / "nodes/evaluate/predictions.csv"));
      for (std::string line; std::getline(lines, line);)
        all += line.substr(0, line.find(',')) + " ";
      names.insert(all);
    }
    EXPECT_EQ(results("s")["objective"]["metric"], "validation/loss");
    std::filesystem::remove_all(folder_ / "s");
    return names.size();
  };
  EXPECT_EQ(tested("seed=1,2,3"), 1u);
  EXPECT_GT(tested("seed=1,2,3 data.split.seed=null"), 1u) << "null uses the run's seed";
}

TEST_F(Sweep, UnknownMetricIsRejectedBeforeTheSweep) {
  const auto refused = [&](const std::string& more) {
    return retort(
        "sweep classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
        "train.epochs=1 seed=1,2 sweep.dir=s " +
            more,
        folder_.path());
  };
  const Ended foo = refused("--metric foo");
  EXPECT_EQ(foo.exit, 64);
  EXPECT_THAT(foo.err, HasSubstr("no trial can have the metric 'foo'"));
  EXPECT_THAT(foo.err,
              HasSubstr("there are validation/loss, validation/accuracy, evaluate/top1, "));
  EXPECT_THAT(refused("--metric evaluate/top1l").err, HasSubstr("did you mean 'evaluate/top1'?"));
  const Ended late = refused("'sweep.asha={metric: evaluate/top1}'");
  EXPECT_EQ(late.exit, 78);
  EXPECT_THAT(late.err, HasSubstr("no trial can have the metric 'evaluate/top1' while it trains"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s"));
  ASSERT_EQ(refused("--metric accuracy -q").exit, 0);
  EXPECT_EQ(results("s")["objective"]["metric"], "evaluate/top1");
  EXPECT_EQ(retort("sweep show s --metric foo", folder_.path()).exit, 64);
  EXPECT_EQ(retort("sweep resume s --metric foo", folder_.path()).exit, 64);
}

TEST_F(Sweep, ExternalSamplerChoosesTheTrials) {
  folder_.write(
      "answers",
      "{\"ask\": 0, \"settings\": {\"train.optimizer.learning_rate\": 0.001}}\n"
      "{\"ask\": 1, \"settings\": {\"train.epoch\": 1}}\n"
      "{\"ask\": 2, \"settings\": {\"train.optimizer.learning_rate\": 0.01, \"seed\": 3}}\n");
  const Ended ended =
      run_shell(RETORT_BINARY_DIR
                "/bin/retort sweep ask-tell classify data.root=photos data.image_size=32 "
                "model.patch_size=8 train.epochs=1 threads=1 sweep.dir=s <answers",
                folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  std::vector<json> lines;
  std::istringstream out(ended.out);
  for (std::string line; std::getline(out, line);) lines.push_back(json::parse(line));
  ASSERT_GE(lines.size(), 8u) << ended.out;
  EXPECT_EQ(lines[0], (json{{"ask_tell", 1}, {"folder", (folder_ / "s").string()}, {"slots", 1}}));
  EXPECT_EQ(lines[1], (json{{"ask", 0}}));
  EXPECT_EQ(lines[2]["tell"], 0);
  EXPECT_EQ(lines[2]["state"], "finished");
  EXPECT_TRUE(lines[2]["value"].is_number());
  EXPECT_EQ(lines[2]["metric"], "validation/loss");
  EXPECT_EQ(lines[2]["best"], "smallest");
  EXPECT_EQ(lines[4]["refused"], 1);
  EXPECT_THAT(lines[4]["errors"][0].get<std::string>(), HasSubstr("'epoch'"));
  EXPECT_EQ(lines[6]["trial"], 1) << "rejected settings are not a trial";
  EXPECT_EQ(lines.back()["results"]["trials"].size(), 2u);
  EXPECT_THAT(file_text(folder_ / "s/recipes/1.yaml"), HasSubstr("\nseed: 3\n"));
  const Ended again = retort("sweep resume s", folder_.path());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the sampler can continue with `retort sweep ask-tell resume "));
}

TEST_F(Sweep, WorseTrialsStopEarly) {
  const Ended ended = run_shell(
      RETORT_BINARY_DIR
      "/bin/retort sweep classify data.root=photos data.image_size=32 model.patch_size=8 "
      "threads=1 train.epochs=40 train.optimizer.learning_rate=0.001,1e-9,1e-8 sweep.dir=s "
      "'sweep.asha={metric: train/epoch_loss, first: 4, factor: 3}'",  // decreases with any data
      folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json trials = results("s")["trials"];
  EXPECT_EQ(trials[0]["state"], "finished");
  EXPECT_EQ(trials[1]["state"], "stopped");
  EXPECT_EQ(trials[1]["metrics"].size(), 1u);
  EXPECT_EQ(trials[2]["state"], "stopped");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "s/1/nodes/train/checkpoints"))
      << "it saved before it stopped";
}

TEST_F(Sweep, SharedStagesAreComputedOnce) {
  const Ended both = run_shell(
      RETORT_BINARY_DIR
      "/bin/retort sweep classify data.root=shapes +data.make='{classes: 2, per_class: 6, "
      "size: 32}' data.image_size=32 model.patch_size=8 threads=1 train.epochs=1 "
      "evaluate.batch_size=1,2,3 --slots 3 --reuse sweep.dir=s",
      folder_.path());
  ASSERT_EQ(both.exit, 0) << both.err;
  int trained = 0, made = 0;
  for (const char* trial : {"0", "1", "2"}) {
    const json summary = json::parse(file_text(folder_ / "s" / trial / "summary.json"));
    for (const json& node : summary["nodes"])
      trained += node["id"] == "train" && !node.contains("reused_from");
    made += file_text(folder_ / "s" / trial / "log.txt").find("creating 12 images") !=
            std::string::npos;
  }
  EXPECT_EQ(trained, 1);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(weights("s", 0), weights("s", 1));
}

TEST_F(Sweep, ResumeReportsDifferences) {
  ASSERT_EQ(
      run_shell(RETORT_BINARY_DIR "/bin/retort sweep classify data.root=photos data.image_size=32 "
                                  "model.patch_size=8 threads=1 train.epochs=1 "
                                  "train.warm_start=null,nowhere sweep.dir=s -q",
                folder_.path())
          .exit,
      3);
  const auto resume = [&](const std::string& words) {
    return retort("sweep resume s " + words, folder_.path());
  };
  const std::string begun =
      "classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 ";
  const Ended other = resume(begun + "train.epochs=2 train.warm_start=null,nowhere,else");
  EXPECT_EQ(other.exit, 78);
  EXPECT_THAT(
      other.err,
      HasSubstr("error[E0807]: this is not how the sweep was started: there were 2 trials and "
                "would now be 3, in trial 0 'train.epochs' was 1 and would now be 2, in trial 1 "));
  EXPECT_THAT(other.err, HasSubstr("it was started as `retort sweep classify data.root=photos "));
  EXPECT_THAT(resume(begun + "train.epochs=2 train.warm_start=null,nowhere --slots 512").err,
              HasSubstr("error[E0807]: this is not how the sweep was started"))
      << "reported before any trial is planned";
  const Ended same = resume(begun + "train.epochs=1 train.warm_start=null,nowhere --slots 4 -q");
  EXPECT_EQ(same.exit, 3) << same.err;
  EXPECT_THAT(resume("--slots 512").err,
              HasSubstr("512 trials at a time with 1 threads each use more than the processor's "));
  EXPECT_EQ(resume("classify no.such=1").exit, 78);

  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "photos"))
    if (entry.path().extension() == ".jpg") std::ofstream(entry.path(), std::ios::app) << "x";
  const Ended changed = resume("");
  EXPECT_EQ(changed.exit, 78);
  EXPECT_THAT(changed.err, HasSubstr("error[E0807]: since trial 0 began, the input /data/root has "
                                     "other files: 8 files with "));
  EXPECT_THAT(
      resume("--force").err,
      HasSubstr("warning[E0807]: since trial 0 began, the input /data/root has other files"));

  const std::string recipe = file_text(folder_ / "s/recipes/1.yaml");
  folder_.write("s/recipes/1.yaml", std::regex_replace(recipe, std::regex("nowhere"), "photos"));
  const Ended edited = resume("--force");
  EXPECT_EQ(edited.exit, 65);
  EXPECT_THAT(edited.err, HasSubstr("s/recipes/1.yaml' is not the recipe that trial 1 began with"));
  std::filesystem::remove(folder_ / "s/recipes/1.yaml");
  EXPECT_THAT(resume("--force").err,
              HasSubstr("s/recipes/1.yaml', the recipe of trial 1, cannot be read"));
}

TEST_F(Sweep, SecretIsNotWritten) {
  const Ended refused = sweep("s", "+vars.api_token=geheim '++train.warm_start=${vars.api_token}'");
  EXPECT_EQ(refused.exit, 78);
  EXPECT_THAT(refused.err,
              HasSubstr("a trial needs a secret, which is never written to the sweep's folder"));
  EXPECT_NE(run_shell("grep -r geheim s", folder_.path()).exit, 0);
}

}  // namespace
