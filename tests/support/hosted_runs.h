#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"
#include "tests/support/torch_python.h"

/// Tests of `retort` in a folder with images of three classes, on which the recipe own.yaml trains
/// a Python network.
class HostedRuns : public testing::Test {
 protected:
  void make_photos_and(const std::string& recipe) const {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 12 --size 16 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("own.yaml", recipe);
    folder_.keep();
  }

  /// Runs a command of `retort` with the user's own trust and cache, in this folder or one below
  /// it.
  Ended here(const std::string& arguments, const std::string& variables = "",
             const std::string& folder = ".") const {
    return run_shell("export RETORT_CACHE=$PWD/cache XDG_CONFIG_HOME=$PWD/config; cd " + folder +
                         "; " + variables + " " RETORT_BINARY_DIR "/bin/retort " + arguments,
                     folder_.path());
  }
  void trust(const std::string& file, const std::string& text) const {
    folder_.write(file, text);
    ASSERT_EQ(here("trust " + file).exit, 0);
  }
  Ended train(const std::string& more = "", const std::string& name = "run",
              const std::string& variables = "") const {
    return here("run own.yaml run.dir=" + name + " python=" + python_->string() + ' ' + more,
                variables);
  }
  std::string weights(const std::string& name) const { return latest_weights(folder_ / name); }

  SharedFolder folder_;
  const std::optional<std::filesystem::path> python_ = torch_python();
};
