#include "runner/parent/sweep/slurm_launcher.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Launcher, SweepWithoutALauncherRunsLocally) {
  const TemporaryFolder sweep;
  keep_launcher(nullptr, sweep.path());
  EXPECT_FALSE(std::filesystem::exists(sweep / "launch"));
  const auto launcher = launcher_of(sweep.path());
  ASSERT_TRUE(launcher);
  EXPECT_TRUE((*launcher)->has_results());
}

TEST(Launcher, IsSavedWithAUniqueName) {
  const TemporaryFolder sweep, other;
  const nlohmann::ordered_json asked = {{"kind", "kubernetes"}, {"image", "a"}, {"claim", "b"}};
  keep_launcher(asked, sweep.path());
  keep_launcher(asked, other.path());
  const auto kept = nlohmann::ordered_json::parse(sweep.read("launch/launcher.json"));
  EXPECT_EQ(kept["launcher"], asked);
  EXPECT_THAT(kept["prefix"].get<std::string>(), MatchesRegex("retort-[0-9a-f]+"));
  EXPECT_NE(kept["prefix"],
            nlohmann::ordered_json::parse(other.read("launch/launcher.json"))["prefix"]);
  const auto launcher = launcher_of(sweep.path());
  ASSERT_TRUE(launcher) << launcher.errors().front().message;
}

std::string refusal_of(const std::string& text) {
  const TemporaryFolder sweep;
  sweep.write("launch/launcher.json", text);
  const auto launcher = launcher_of(sweep.path());
  if (launcher) return "";
  EXPECT_EQ(launcher.errors().front().code, ErrorCode::kDamagedRecord);
  return launcher.errors().front().message;
}

TEST(Launcher, EditedFileIsChecked) {
  EXPECT_EQ(refusal_of(R"({"prefix": "a", "launcher": {"kind": "slurm", "partition": "gpu"}})"),
            "");
  EXPECT_THAT(
      refusal_of(R"({"prefix": "a", "launcher": {"kind": "slurm", "partitoin": "gpu"}})"),
      HasSubstr("does not describe a launcher for the sweep's trials: unknown key 'partitoin'"));
  EXPECT_THAT(refusal_of(R"({"prefix": "a\n#SBATCH -w b", "launcher": {"kind": "slurm"}})"),
              HasSubstr("its 'prefix' may contain only lower-case letters, digits and '-'"));
  EXPECT_THAT(
      refusal_of(
          R"({"prefix": "a", "launcher": {"kind": "slurm", "options": ["--a=b\ntouch c"]}})"),
      HasSubstr("does not have the required form [/options/0]"));
  EXPECT_THAT(refusal_of(R"({"prefix": "a", "launcher": {"kind": "lsf"}})"),
              HasSubstr("there is no launcher of that kind"));
  EXPECT_THAT(refusal_of(R"({"prefix": "a", "launcher": {"kind": 1}})"),
              HasSubstr("there is no launcher of that kind"));
  for (const char* text : {"", "{", "[]", "{\"prefix\": 1, \"launcher\": {}}"})
    EXPECT_THAT(refusal_of(text), HasSubstr("it lacks 'launcher' or 'prefix'")) << text;
}

}  // namespace
}  // namespace runner
