// End-to-end tests of invalid values for every launcher option in a sweep: none causes an internal
// error, and each rejected value is reported with its location.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

/// Strings that refer to nothing or are special in a shell, numbers out of range, and values of
/// every other type.
const Json kWrongSettings = {"",
                             " ",
                             "nope/",
                             "/proc/self/mem",
                             "[",
                             "a\nb",
                             "a\x1b[1m",
                             "${missing}",
                             "~nobody/x",
                             "-",
                             "--x=\"$(id)\"",
                             "http://me:swordfish@h/x",
                             std::string(5000, 'a'),
                             0,
                             -1,
                             1.5,
                             1e300,
                             10'000'000'000'000'000'000u,
                             nullptr,
                             true,
                             Json::array(),
                             Json::object(),
                             {{1}},
                             {"a", 1},
                             {"--a\nb"},
                             {nullptr}};

class WrongLaunchers : public testing::TestWithParam<std::string> {
 protected:
  static constexpr char kRecipe[] =
      "schema: 1\nthreads: 1\ndevice: cpu\n"
      "data: {kind: data.image_folder, root: photos, image_size: 32}\n"
      "model: {kind: model.clip_vision, patch_size: 16, hidden_size: 16, num_hidden_layers: 1, "
      "num_attention_heads: 2, intermediate_size: 16}\n"
      "memory: {kind: memory.policy}\n"
      "train: {kind: train.supervised, batch_size: 8, epochs: 1}\n";

  void SetUp() override {
    ASSERT_EQ(retort("data make image_folder --out photos --classes 2 --per-class 2 --size 16 -q",
                     folder_.path())
                  .exit,
              0);
    for (const char* command : {"sbatch", "squeue", "sacct", "scancel"}) {
      folder_.write(std::string("bin/") + command, "#!/bin/sh\necho 'not today' >&2\nexit 1\n");
      std::filesystem::permissions(folder_ / "bin" / command, std::filesystem::perms::owner_all);
    }
  }
  /// The settings of a valid launcher.
  static Json launcher() {
    Json settings = {{"kind", GetParam()}, {"memory", "1GiB"}, {"gpus", 0}};
    if (GetParam() == "kubernetes") settings.update({{"image", "a/b:1"}, {"claim", "lab"}});
    return settings;
  }

  const TemporaryFolder folder_;
};

TEST_P(WrongLaunchers, OptionsDoNotCauseInternalErrors) {
  const Json schema = Json::parse(
      file_text(RETORT_SOURCE_DIR "/schemas/sweep/launcher/" + GetParam() + ".schema.json"));
  std::vector<std::pair<std::string, Json>> tried;
  std::string lines = "export PATH=$PWD/bin:$PATH\n";
  for (const auto& [option, ignored] : schema["properties"].items()) {
    for (const Json& value : option == "kind" ? Json() : kWrongSettings) {
      Json settings = launcher();
      settings[option] = value;
      const std::string number = std::to_string(tried.size());
      folder_.write(number + ".yaml", kRecipe + ("sweep: {launcher: " + settings.dump() + "}\n"));
      lines += "timeout 60 " RETORT_BINARY_DIR "/bin/retort sweep " + number +
               ".yaml seed=1,2 sweep.dir=s --json >" + number + ".out 2>" + number +
               ".err; echo $? >" + number + ".exit; rm -rf s\n";
      tried.emplace_back(option, value);
    }
  }
  ASSERT_GT(tried.size(), 200u);
  run_shell(lines, folder_.path());
  int refused = 0;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto& [option, value] = tried[i];
    const std::string number = std::to_string(i);
    const int exit = std::stoi(file_text(folder_ / (number + ".exit")));
    const std::string err = file_text(folder_ / (number + ".err")),
                      out = file_text(folder_ / (number + ".out")),
                      what = option + ": " + value.dump().substr(0, 60) + '\n' + err;
    EXPECT_TRUE(exit == 0 || exit == 69 || exit == 78) << exit << ' ' << what;
    EXPECT_THAT(err, Not(HasSubstr("please report"))) << what;
    EXPECT_THAT(out + err, Not(HasSubstr("swordfish"))) << what;
    EXPECT_EQ(std::ranges::count(out + err, '\x1b'), 0) << what;
    if (exit == 69)  // submitted, and rejected there
      EXPECT_THAT(err, testing::AnyOf(HasSubstr("sweep.launcher"), HasSubstr("not today"))) << what;
    if (exit != 78) continue;
    ++refused;
    const Json errors = Json::parse(out, nullptr, false).value("errors", Json::array());
    EXPECT_TRUE(std::ranges::any_of(
        errors,
        [&, &name = option](const Json& error) {
          return error.value("pointer", "").starts_with("/sweep/launcher/" + name);
        }))
        << what << out;
  }
  EXPECT_GT(refused, 150);
}

INSTANTIATE_TEST_SUITE_P(Launchers, WrongLaunchers, testing::Values("slurm", "kubernetes"),
                         [](const auto& info) { return info.param; });

}  // namespace
