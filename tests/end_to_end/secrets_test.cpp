// End-to-end tests of secrets, which no record contains: verbs that need a secret ask for it again.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class UnrecordedSecret : public testing::Test {
 protected:
  void SetUp() override {
    if (!folder_.is_made()) {
      const Ended made =
          retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q",
                 folder_.path());
      ASSERT_EQ(made.exit, 0) << made.err;
      run("run classify epochs=1 run.dir=first ~evaluate");
      if (HasFatalFailure()) return;
      folder_.keep();
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "photos")) {
      if (entry.path().extension() == ".jpg") image_ = entry.path().string();
    }
  }
  void run(const std::string& command) {
    const Ended ended =
        retort(command + " data.root=photos data.image_size=24 batch_size=8 -q", folder_.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
  }
  /// A run with a secret path to its backbone's weights.
  void run_on_secret_weights() {
    ASSERT_EQ(retort("export first -q --out hidden-base", folder_.path()).exit, 0);
    run("run finetune data=image_folder model=linear_probe model/backbone=local "
        "'+vars.secret_base=hidden-base' "
        "'model.backbone.weights=${vars.secret_base}' epochs=1 run.dir=run");
    ASSERT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), Not(HasSubstr("hidden-base")));
  }
  SharedFolder folder_;
  std::string image_;
};

TEST_F(UnrecordedSecret, IsNotPrintedByAVerbThatFails) {
  for (const char* verb : {"plan", "plan --json", "run -v", "doctor determinism"}) {
    const Ended ended = retort(
        std::string(verb) +
            " finetune data=image_folder data.root=photos data.image_size=24 model=linear_probe "
            "model/backbone=local '+vars.secret_base=hidden-base' "
            "'model.backbone.weights=${vars.secret_base}/a' epochs=1",
        folder_.path());
    EXPECT_EQ(ended.exit, 66) << verb << ended.err;
    EXPECT_THAT(ended.out + ended.err, HasSubstr("there is no '${vars.secret_base}/a'")) << verb;
    EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("hidden-base"))) << verb;
  }
}

TEST_F(UnrecordedSecret, IsRequiredAgainByEachVerbThatNeedsIt) {
  run_on_secret_weights();
  const std::string given = " model.backbone.weights=hidden-base";
  for (const std::string& verb : {"predict run " + image_, std::string("export run --out out"),
                                  std::string("evaluate run run.dir=out")}) {
    const Ended refused = retort(verb, folder_.path());
    EXPECT_EQ(refused.exit, 78) << verb;
    EXPECT_THAT(refused.err, HasSubstr("error[E0213]: this is a secret, which the record does not "
                                       "store [/model/backbone/weights]\n"))
        << verb;
    EXPECT_THAT(refused.err, HasSubstr("  help: enter it again as an override\n")) << verb;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << verb;
    const Ended done = retort(verb + given, folder_.path());
    EXPECT_EQ(done.exit, 0) << verb << ": " << done.err;
    fs::remove_all(folder_ / "last");
    if (fs::exists(folder_ / "out")) fs::rename(folder_ / "out", folder_ / "last");
  }
  // The secret that was given again is not in the new record either.
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "last")) {
    if (entry.is_regular_file()) {
      EXPECT_THAT(file_text(entry.path()), Not(HasSubstr("hidden-base"))) << entry.path();
    }
  }
  EXPECT_THAT(file_text(folder_ / "last/.retort/overrides.yaml"),
              HasSubstr("- model.backbone.weights=***\n"));
}

TEST_F(UnrecordedSecret, IsRejectedIfGivenAgainIncorrectly) {
  run_on_secret_weights();
  run("run classify epochs=1 seed=8 run.dir=second ~evaluate");
  ASSERT_EQ(retort("export second -q --out other-base", folder_.path()).exit, 0);
  const Ended ended =
      retort("predict run " + image_ + " model.backbone.weights=other-base", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(
      ended.err,
      HasSubstr("error[E0807]: the checkpoint was trained with different frozen weights: "));
}

TEST_F(UnrecordedSecret, IsNotRequiredIfOnlyTrainingNeededIt) {
  run("run classify '+vars.secret_start=first' 'train.warm_start=${vars.secret_start}' epochs=1 "
      "run.dir=run");
  ASSERT_THAT(file_text(folder_ / "run/.retort/recipe.yaml"), HasSubstr("  warm_start: '***'\n"));
  const Ended predicted = retort("predict run " + image_, folder_.path());
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  const Ended exported = retort("export run --out out", folder_.path());
  EXPECT_EQ(exported.exit, 0) << exported.err;
}

TEST_F(UnrecordedSecret, ExportRejectsOtherOverrides) {
  const Ended ended = retort("export first seed=3 vars.api_key=abc", folder_.path());
  EXPECT_EQ(ended.exit, 78);
  EXPECT_EQ(ended.err,
            "error[E0809]: 'seed=3' has no effect on an export\n  help: an export accepts only "
            "overrides that give a secret, which the run's record does not contain\nerror[E0809]: "
            "'vars.api_key=***' has no effect on an export\n  help: an export accepts only "
            "overrides that give a secret, which the run's record does not contain\n");
}

/// A secret in variables, options and flags that every command reads. All output and files,
/// including file names, are searched for it.
class PlantedSecret : public testing::Test {
 protected:
  static constexpr char kSecret[] = "swordfish471108";
  static constexpr char kReads[] = "${oc.env:MY_TOKEN}";
  static constexpr char kDigits[] = "847261935";           // another, which looks like a number
  static constexpr char kFolder[] = "photos/.././photos";  // the data's folder, written in an
                                                           // unusual way

  void SetUp() override {
    ASSERT_EQ(
        shell("retort data make image_folder --out photos --classes 3 --per-class 6 --size 32 -q")
            .exit,
        0);
  }
  /// Runs shell commands in which `retort` is the program under test, with its cache in the folder.
  Ended shell(const std::string& commands) const {
    return run_shell("export HOME=$PWD RETORT_CACHE=$PWD/cache MY_PIN_KEY=" + std::string(kDigits) +
                         " MY_ROOT_KEY=" + kFolder + " MY_TOKEN=" + kSecret + " HF_TOKEN=" +
                         kSecret + " RETORT_API_KEY=" + kSecret + " CUDA_AUTH=" + kSecret +
                         "\nretort() { " RETORT_BINARY_DIR "/bin/retort \"$@\"; }\n" + commands,
                     folder_.path());
  }
  void expect_nowhere(const std::string& what, const Ended& ended) const {
    expect_none_in(ended.out + ended.err, what);
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      expect_none_in(entry.path().filename(), what);
      if (!entry.is_regular_file()) continue;
      const std::string text =
          entry.path().extension() == ".gz"
              ? run_shell("gzip -dc '" + entry.path().string() + "'", folder_.path()).out
              : file_text(entry.path());
      expect_none_in(text, what + ": " + entry.path().string());
    }
  }
  static void expect_none_in(const std::string& text, const std::string& what) {
    for (const char* secret : {kSecret, kDigits, kFolder}) {
      const std::size_t at = text.find(secret);
      EXPECT_EQ(at, std::string::npos) << what << ": " << text.substr(at < 80 ? 0 : at - 80, 160);
    }
  }
  void expect_nowhere(const std::string& command) const {
    expect_nowhere(command, shell("retort " + command));
  }

  const std::string base_ = "classify data.root=photos data.image_size=24 batch_size=4 epochs=1 ";
  const TemporaryFolder folder_;
};

TEST_F(PlantedSecret, StaysOutOfRecordsAndRunLists) {
  const std::string planted = "'+vars.password=" + std::string(kSecret) + "' '+vars.api_key=a" +
                              kSecret + "${seed}' '+vars.db_pass=" + kSecret +
                              "' '+vars.authorization=[" + kSecret + "]' '+vars.token=" + kReads +
                              "' '+vars.passwd=x${vars.token}' '+vars.plain=" + kReads +
                              "' '+vars.copy=b ${vars.password}'";
  const Ended ran =
      shell("retort run " + base_ + planted + " run.dir=run --smoke -v --log-level trace");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_nowhere("run", ran);
  for (const std::string& command :
       {std::string("runs ls ."), std::string("runs show run"), std::string("runs ls . --json"),
        "config show " + base_ + planted, "config show " + base_ + planted + " --resolve",
        "plan " + base_ + planted + " --json", "graph " + base_ + planted,
        std::string("resume run -v"), std::string("runs diff run run"), std::string("analyze run"),
        std::string("evaluate run run.dir=again -q"), std::string("predict run photos --json -q"),
        std::string("export run --out exported -q")})
    expect_nowhere(command);
}

/// Secrets in every place that accepts text, supplied in every possible way, with every verb.
TEST_F(PlantedSecret, StaysOutOfTheOutputOfEveryVerb) {
  const std::string secret = kSecret, digits = kDigits;
  const std::string url = "http://me:" + secret + "@127.0.0.1:1/x",
                    query = "http://127.0.0.1:1/x?token=" + secret;
  const std::string planted = "'+vars.password=" + secret + "' '+vars.pin_pass=" + digits +
                              "' '+vars.pin=${oc.env:MY_PIN_KEY}' '+vars.url=" + url +
                              "' '+vars.query=" + query + "' '+vars.list=[{db_passwd: " + secret +
                              "}]' '+vars.http_auth={basic: " + secret + "}' 'data.caption=\"of " +
                              kReads + " and ${vars.password}, a {name}\"' ";
  const Ended ran = shell("retort run " + base_ + planted + "run.dir=run -v --log-level trace");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_nowhere("run", ran);
  EXPECT_THAT(file_text(folder_ / "run/log.txt"), HasSubstr("of ${oc.env:MY_TOKEN} and "));
  EXPECT_EQ(shell("retort run " + base_ + "'+vars.token=" + kReads + "' run.dir=other -q").exit, 0);
  const std::string again = " vars.password=" + secret;
  for (const std::string& command :
       {"config show " + base_ + planted + "--resolve --origin",
        "config show " + base_ + planted + "--json",
        "config diff " + base_ + planted,
        "config show " + base_ + planted + "--explain vars.password",
        "validate " + base_ + planted + "--json",
        "graph " + base_ + planted + "--json",
        "plan " + base_ + planted + "-v --log-level trace",
        "plan " + base_ + planted + "--json",
        "certify " + base_ + planted + "-v",
        "data check " + base_ + planted + "--json",
        "doctor determinism " + base_ + planted + "-v",
        "run " + base_ + planted + "--cfg all",
        "run " + base_ + planted + "--dry-run",
        "sweep " + base_ + planted + "seed=1,2 --dry-run --json",
        "sweep " + base_ + "'+vars.plain=choice(" + kReads + ",b)' sweep.dir=s -q",
        "sweep " + base_ + "'data.caption=\"" + kReads + " {name}\",b' sweep.dir=s2 -q",
        std::string("sweep show s --json"),
        std::string("watch s --once"),
        std::string("analyze s/0"),
        std::string("explain '+vars.password=") + secret + "'",
        "resume run -v" + again,
        "evaluate run run.dir=evaluated -v" + again,
        "predict run photos --json" + again,
        "export run --out exported" + again,
        "runs rerun run run.dir=rerun -v" + again,
        "runs reproduce run run.dir=reproduced" + again,
        std::string("analyze run --json"),
        std::string("compare run other"),
        std::string("compare run other --paired --json"),
        std::string("runs ls . --json"),
        "runs ls . vars.password=" + secret,
        std::string("runs show run --json"),
        std::string("runs diff run other"),
        std::string("runs best . --metric evaluate/top1"),
        std::string("runs tag other 'password=") + secret + "'",
        std::string("runs status run --json")})
    expect_nowhere(command);
}

TEST_F(PlantedSecret, StaysOutOfMessagesIfItIsInAUrl) {
  const std::string url = "http://me:" + std::string(kSecret) + "@127.0.0.1:1/x";
  const std::string local = "finetune data=image_folder data.root=photos model/backbone=local ";
  for (const std::string& command :
       {"validate " + base_ + "train.warm_start=" + url,
        "plan " + base_ + "train.warm_start=" + url,
        "plan " + base_ + "train.warm_start=" + url + " --json",
        "plan " + base_ + "'train.warm_start=/x/" + kReads + "/y' --json",
        "plan " + base_ + "'train.warm_start=/x/" + kReads + "/y'",
        "run " + base_ + "train.warm_start=" + url,
        "validate " + local + "model.backbone.weights=" + url,
        "plan " + local + "model.backbone.weights=" + url + " --json",
        "run " + local + "model.backbone.weights=" + url,
        "validate " + url,
        "run " + url,
        "resume " + url,
        "runs ls " + url,
        "config show " + url,
        "predict " + url + " x",
        "validate " + base_ + "--config-dir " + url,
        "data fetch " + url,
        "data fetch cub200 --out d --url " + url,
        "run " + base_ + "run.dir=" + url,
        "run " + base_ + "name=" + url,
        "explain " + url,
        "sweep " + base_ + "seed=1,2 sweep.dir=" + url,
        "sweep " + base_ +
            "seed=1,2 --launcher kubernetes sweep.launcher.claim=c sweep.dir=k "
            "sweep.launcher.image=" +
            url})
    expect_nowhere(command);
}

TEST_F(PlantedSecret, StaysOutOfOutputIfItIsInAFolderOrForeachItem) {
  const std::string root = "'data.root=${oc.env:MY_ROOT_KEY}' ";
  ASSERT_EQ(shell("retort run " + base_ + "run.dir=run -q").exit, 0);
  const Ended evaluated = shell("retort evaluate run run.dir=evaluated " + root);
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("data: the test part of '${oc.env:MY_ROOT_KEY}'"));
  expect_nowhere("evaluate", evaluated);
  for (const std::string& command :
       {"run " + base_ + root + "run.dir=other -v", "data check " + base_ + root,
        "validate " + base_ + root + "data.on_corrupt=stop",
        "graph " + base_ + "'+train.foreach={x: [\"" + kReads + "\", b]}'",
        "graph " + base_ + "'+train.foreach={x: [\"" + kReads + "\", b]}' --json",
        "plan " + base_ + "'+train.foreach={x: [\"" + kReads +
            "\", b]}' 'train.warm_start=${item.x}'",
        "run " + base_ + "'+train.foreach={x: [\"" + kReads + "\", b]}' run.dir=items --smoke",
        "validate " + base_ + "'data.root=~${oc.env:MY_TOKEN}/x'",
        "validate finetune data=image_folder data.root=photos model/backbone=local "
        "'model.backbone.weights=" +
            std::string(kReads) + "'"})
    expect_nowhere(command);
}

TEST_F(PlantedSecret, IsRejectedWhereItWouldBePublic) {
  for (const std::string option : {"name=r_", "notice=", "run.dir=outputs/"}) {
    const Ended ended = shell("retort run " + base_ + "--smoke '" + option + kReads + "'");
    EXPECT_EQ(ended.exit, 78) << option << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("error[E0314]: this comes from a secret (")) << option;
    expect_nowhere(option, ended);
  }
  const Ended seeded = shell("retort run " + base_ + "--smoke 'seed=${oc.env:MY_PIN_KEY}'");
  EXPECT_EQ(seeded.exit, 78) << seeded.err;
  expect_nowhere("seed", seeded);
  for (const std::string& option :
       {"'sweep.dir=s/" + std::string(kReads) + "'",
        "--launcher slurm 'sweep.launcher.setup=[\"export A=" + std::string(kReads) + "\"]'"}) {
    const Ended ended = shell("retort sweep " + base_ + "seed=1,2 " + option);
    EXPECT_EQ(ended.exit, 78) << option << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("error[E0314]: this comes from a secret (")) << option;
    expect_nowhere(option, ended);
  }
}

TEST_F(PlantedSecret, StaysOutOfErrorMessages) {
  const std::string secret = kSecret;
  for (const std::string& command :
       {"validate " + base_ + "data.kind='" + kReads + "'",
        "validate " + base_ + "train.epochs='" + kReads + "'",
        "validate " + base_ + "device.select='" + kReads + "'",
        "validate " + base_ + "+train.x='" + kReads + "'",
        "validate " + base_ + "+vars.password=" + secret + " +vars.password=" + secret,
        "validate " + base_ + "+vars.password='\"" + secret + "'",
        "validate " + base_ + "'+vars.password=" + secret + "]'",
        "validate " + base_ + "'+vars.password=${" + secret + "'",
        "validate " + base_ + "password=" + secret,
        "validate " + base_ + "train.password=" + secret,
        "validate " + base_ + "--password=" + secret,
        "validate " + base_ + "password=" + secret + " --json",
        "sweep " + base_ + "+vars.token=" + secret + ",b --dry-run",
        "data fetch cub200 --out d --url http://me:" + secret + "@127.0.0.1:1/x",
        "data fetch hf:a/b --out d --url http://me:" + secret + "@127.0.0.1:1/x"})
    expect_nowhere(command);
}

/// The dotted names of all options of a schema.
void add_options(const nlohmann::json& schema, const std::string& above,
                 std::vector<std::string>& options) {
  if (!schema.contains("properties")) return;
  for (const auto& [name, option] : schema["properties"].items()) {
    if (name == "kind") continue;
    options.push_back(above + "." + name);
    add_options(option, above + "." + name, options);
    if (option.contains("anyOf"))
      for (const auto& one : option["anyOf"]) add_options(one, above + "." + name, options);
  }
}

TEST_F(PlantedSecret, StaysOutOfMessagesAboutAnyOption) {
  std::string commands;
  std::vector<std::string> recipes;
  for (const std::string family : {"data", "model", "train", "evaluate"}) {
    for (const auto& entry : fs::directory_iterator(RETORT_SOURCE_DIR "/schemas/" + family)) {
      const std::string file = entry.path().filename();
      if (!file.ends_with(".schema.json")) continue;
      std::vector<std::string> options;
      add_options(nlohmann::json::parse(file_text(entry.path())), family, options);
      for (const std::string& option : options)
        recipes.push_back(base_ + "++" + family + ".kind=" + family + "." +
                          file.substr(0, file.find('.')) + " '++" + option + "=x " + kReads + "'");
    }
  }
  EXPECT_GT(recipes.size(), 300u);
  // Recipes that are valid are also planned and run by a worker.
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    for (const char* verb : {"config show --resolve", "graph", "graph --json"})
      commands += std::string("retort ") + verb + " " + recipes[i] + '\n';
    commands += "retort validate " + recipes[i] + " && { retort plan " + recipes[i] +
                "; retort run " + recipes[i] + " --smoke -v run.dir=r" + std::to_string(i) +
                "; }\n";
  }
  expect_nowhere("any option", shell(commands + "true"));
}

}  // namespace
