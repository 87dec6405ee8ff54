#include "runner/parent/cli/reserved_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReservedKeys : public testing::Test {
 protected:
  Composition typed(const std::vector<std::string>& words) {
    Composition composition;
    for (const std::string& word : words)
      composition.overrides.push_back(*parse_override(sources_.add("override", word)));
    return composition;
  }
  static std::vector<std::string> messages(const Diagnostics& errors) {
    std::vector<std::string> lines;
    for (const Diagnostic& error : errors) lines.push_back(error.message);
    return lines;
  }

  Sources sources_;
};

TEST_F(ReservedKeys, SweepKeysOfASingleRunAreReported) {
  EXPECT_THAT(
      messages(sweep_keys_of_single_run(typed(
          {"sweep.dir=a", "train.epochs=2", "+sweep.params.seed=[1,2]", "hydra.sweep.dir=b"}))),
      ElementsAre("'sweep.dir' is for a sweep, but this is a single run",
                  "'sweep.params.seed' is for a sweep, but this is a single run",
                  "'hydra.sweep.dir' is for a sweep, but this is a single run"));
  EXPECT_THAT(sweep_keys_of_single_run(typed({"~sweep", "run.dir=a", "sweeper.x=1"})), IsEmpty());
}

TEST_F(ReservedKeys, ResumedRunStaysInItsFolder) {
  EXPECT_THAT(
      messages(run_keys_of_resumed_run(typed({"run.dir=a", "train.epochs=2"}))),
      ElementsAre("a resumed run continues in its own folder, so 'run.dir' would change nothing"));
  EXPECT_THAT(run_keys_of_resumed_run(typed({"name=other", "runs.x=1"})), IsEmpty());
}

TEST_F(ReservedKeys, SamplerCannotSetSweepKeys) {
  for (const char* key :
       {"sweep.dir", "+sweep.seed", "~sweep.asha", "launcher", "hydra.sweep.dir", "sweep"})
    EXPECT_TRUE(is_sweep_key(key)) << key;
  for (const char* key : {"train.epochs", "run.dir", "sweeper", "launchers", "model"})
    EXPECT_FALSE(is_sweep_key(key)) << key;
}

TEST_F(ReservedKeys, TrialFolderMayBeInTheSameFileAsTheSweepFolder) {
  const auto recipe = [&](const std::string& source, bool with_sweep) {
    const Location where{&sources_.add(source, ""), 1, 1};
    Value value{
        Value::Map{{"run", where, Value{Value::Map{{"dir", where, Value{"a", where}}}, where}}},
        where};
    if (with_sweep)
      value.map()->push_back(
          {"sweep", where, Value{Value::Map{{"dir", where, Value{"b", where}}}, where}});
    return value;
  };
  EXPECT_THAT(run_folder_of_trial(recipe("r.yaml", true)), IsEmpty());
  EXPECT_EQ(run_folder_of_trial(recipe("r.yaml", false)).size(), 1u);
  EXPECT_EQ(run_folder_of_trial(recipe("override 1", true)).size(), 1u);
  EXPECT_EQ(run_folder_of_trial(recipe("override 1", true))[0].help,
            "set the sweep's folder, which contains all its trials: sweep.dir=a");
}

}  // namespace
}  // namespace runner
