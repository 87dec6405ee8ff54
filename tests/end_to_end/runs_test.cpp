// End-to-end tests of the registry of runs: two runs are listed, shown, compared, tagged and
// removed.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 4 --size 32 -q",
                     folder_.path())
                  .exit,
              0);
    for (const std::string rate : {"0.001", "0.5"}) {
      const Ended ended = retort(
          "run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
          "train.epochs=1 train.optimizer.learning_rate=" +
              rate + " run.dir=outputs/" + rate,
          folder_.path());
      ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    folder_.keep();
  }
  /// Runs `retort runs` with a persistent index.
  Ended runs(const std::string& arguments) const {
    return run_shell("export RETORT_CACHE='" + (folder_ / "cache").string() +
                         "'; " RETORT_BINARY_DIR "/bin/retort runs " + arguments,
                     folder_.path());
  }
  json result(const std::string& arguments) const {
    const Ended ended = runs(arguments + " --json");
    EXPECT_EQ(ended.exit, 0) << ended.out;
    return json::parse(ended.out)["result"];
  }
  std::vector<std::string> listed(const std::string& arguments) const {
    std::vector<std::string> folders;
    const json listing = result("ls " + arguments);
    for (const json& run : listing["runs"]) folders.push_back(run["run"]);
    return folders;
  }
  SharedFolder folder_;
};

TEST_F(Runs, AreListedShownComparedTaggedAndRemoved) {
  const std::vector<std::string> all = {"outputs/0.001", "outputs/0.5"};
  EXPECT_EQ(listed(""), all);
  EXPECT_EQ(listed("'train.optimizer.learning_rate<0.1 & model.kind=clip_vision'"),
            std::vector<std::string>{"outputs/0.001"});
  EXPECT_EQ(listed("--sort train.optimizer.learning_rate --reverse"),
            std::vector<std::string>(all.rbegin(), all.rend()));
  const Ended table = runs("ls 'train.optimizer.learning_rate=0.5'");
  EXPECT_THAT(table.out, testing::ContainsRegex(
                             "outputs/0\\.5 +finished +evaluate/top1 [0-9.]+ +classify_tiny"));
  EXPECT_EQ(table.err, "");

  const json shown = result("show outputs/0.5");
  EXPECT_EQ(shown["status"], "finished");
  EXPECT_EQ(shown["settings"]["train"]["optimizer"]["learning_rate"], 0.5);
  for (const json& node : shown["nodes"]) EXPECT_EQ(node["state"], "done") << node;
  EXPECT_TRUE(shown["environment"].contains("versions"));
  EXPECT_FALSE(shown["metrics"].empty());
  const Ended text = runs("show outputs/0.5");
  for (const std::string part :
       {"status      finished\n", "\nnode ", "\nmetric ", "\nenvironment\n", "\n# recipe\n"})
    EXPECT_THAT(text.out, HasSubstr(part));

  const json difference = result("diff outputs/0.001 outputs/0.5");
  std::vector<std::string> keys;
  for (const json& field : difference["recipe"]) keys.push_back(field["key"]);
  EXPECT_THAT(keys, testing::Contains("train.optimizer.learning_rate"));
  EXPECT_EQ(difference["environment"], json::array());
  EXPECT_FALSE(difference["metrics"].empty());

  double losses[2];
  for (int i = 0; i < 2; ++i)
    losses[i] = result("best --metric log_loss run=" + all[static_cast<std::size_t>(i)])["value"];
  const Ended best = runs("best --metric log_loss");
  EXPECT_EQ(best.out, (losses[0] <= losses[1] ? all[0] : all[1]) + "\n");
  EXPECT_THAT(best.err, HasSubstr(", the best of 2 runs\n"));

  EXPECT_EQ(runs("tag outputs/0.5 poor v1").out, "poor\nv1\n");
  EXPECT_EQ(listed("tag=poor"), std::vector<std::string>{"outputs/0.5"});
  EXPECT_EQ(runs("tag outputs/0.5 v1 --remove").out, "poor\n");

  EXPECT_EQ(runs("rm outputs/0.5 --yes").out, "outputs/0.5\n");
  EXPECT_FALSE(fs::exists(folder_ / "outputs/0.5"));
  const Ended after = runs("ls");
  EXPECT_EQ(after.err, "");
  EXPECT_THAT(after.out, testing::Not(HasSubstr("outputs/0.5")));
  EXPECT_THAT(runs("reindex").out, testing::StartsWith("1 run in the index: "));
}

TEST_F(Runs, BestRunHasWeightsAndIsChosenByValidation) {
  ASSERT_EQ(retort("run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
                   "train.epochs=1 data.split.validation=0 run.dir=plain/a -q",
                   folder_.path())
                .exit,
            0);
  const Ended plain = runs("best plain");
  EXPECT_EQ(plain.out, "plain/a\n");
  EXPECT_THAT(
      plain.err,
      HasSubstr(
          "no run here has been validated, so the choice is based on test data: evaluate/top1 "));
  EXPECT_THAT(runs("best --metric accuracy").err,
              testing::StartsWith("evaluate/top1 is measured on test data: "));
  for (const std::string seed : {"1", "2"}) {
    const Ended ended = retort(
        "run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 "
        "train.epochs=1 seed=" +
            seed + " run.dir=outputs/seed" + seed,
        folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  ASSERT_EQ(retort("evaluate outputs/seed1 run.dir=outputs/a -q", folder_.path()).exit, 0);
  ASSERT_EQ(retort("evaluate outputs/seed2 run.dir=outputs/b -q", folder_.path()).exit, 0);
  EXPECT_EQ(listed(""), (std::vector<std::string>{"outputs/0.001", "outputs/0.5", "outputs/seed1",
                                                  "outputs/a", "outputs/seed2", "outputs/b"}));
  EXPECT_THAT(runs("ls").out, testing::ContainsRegex("\noutputs/seed1 .*\n  outputs/a "));
  EXPECT_THAT(runs("ls 'run=outputs/a'").out, HasSubstr("outputs/a of outputs/seed1"));

  const json best = result("best");
  EXPECT_EQ(best["metric"], "validation/loss");
  EXPECT_EQ(best["of_test_data"], false);
  EXPECT_EQ(best["of"], 4);
  for (const std::string run : {"outputs/0.001", "outputs/0.5", "outputs/seed1", "outputs/seed2"})
    EXPECT_LE(best["value"].get<double>(),
              result("best --metric validation/loss run=" + run)["value"].get<double>());
  EXPECT_EQ(result("best --metric evaluate/log_loss")["of"], 4) << "evaluations have no weights";
  EXPECT_EQ(runs("best 'run=outputs/a'").exit, 66);
  const Ended predicted = run_shell(RETORT_BINARY_DIR "/bin/retort predict \"$(" RETORT_BINARY_DIR
                                                      "/bin/retort runs best -q)\" photos/*/*.jpg",
                                    folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

TEST_F(Runs, BadInputDeletesNothing) {
  EXPECT_EQ(runs("ls").exit, 0);
  fs::remove_all(folder_ / "outputs/0.001");
  std::ofstream(folder_ / "outputs/0.5/summary.json") << "{";
  const Ended listing = runs("ls");
  EXPECT_EQ(listing.exit, 0);
  EXPECT_THAT(listing.err, HasSubstr("warning[E0806]: a run no longer exists: 'outputs/0.001'"));
  const Ended reread = runs("reindex");
  EXPECT_THAT(reread.out, HasSubstr("1 run in the index, 1 of them damaged: "));
  EXPECT_THAT(reread.err,
              HasSubstr("warning[E0821]: the record of 'outputs/0.5' is damaged: 'summary.json' "
                        "cannot be read"));
  for (const auto& entry : fs::directory_iterator(folder_ / "cache/runs"))
    std::ofstream(entry.path()) << "no index";
  EXPECT_THAT(runs("ls").err,
              HasSubstr("is damaged (file is not a database), and will be rebuilt"));

  EXPECT_EQ(runs("rm outputs/0.5").exit, 64);
  EXPECT_EQ(runs("rm outputs/../outputs/0.5 --yes").exit, 64);
  EXPECT_EQ(runs("rm photos --yes").exit, 66);
  EXPECT_EQ(runs("rm outputs/0.5 outputs --yes").exit, 66);
  EXPECT_EQ(runs("tag outputs/0.5 ../x").exit, 64);
  EXPECT_EQ(runs("ls 'accuracy>'").exit, 64);
  EXPECT_EQ(runs("ls no/such/folder").exit, 66);
  EXPECT_EQ(runs("ls 'acuracy=1'").exit, 64);
  EXPECT_EQ(runs("diff outputs/0.5").exit, 64);
  EXPECT_EQ(runs("show").exit, 64);
  EXPECT_TRUE(fs::exists(folder_ / "outputs/0.5/.retort/run.json"));
  EXPECT_TRUE(fs::exists(folder_ / "photos"));
}

TEST_F(Runs, RemovalNeedsConfirmation) {
  const auto answered = [&](const std::string& answer) {
    return run_shell("echo " + answer +
                         " | script -qec '" RETORT_BINARY_DIR
                         "/bin/retort runs rm outputs/0.5' /dev/null",
                     folder_.path());
  };
  EXPECT_THAT(answered("n").out, HasSubstr("nothing was removed"));
  EXPECT_TRUE(fs::exists(folder_ / "outputs/0.5/summary.json"));
  EXPECT_THAT(answered("y").out, HasSubstr("remove this run, "));
  EXPECT_FALSE(fs::exists(folder_ / "outputs/0.5"));
}

}  // namespace
