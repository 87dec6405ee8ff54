#pragma once

#include <csignal>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/program.h"

/// Runs `recipe` in `folder`, kills it in a step and resumes it. Its evaluation must be that of the
/// run `whole`, which nothing interrupted.
inline void expect_same_evaluation_when_resumed(const std::filesystem::path& folder,
                                                const std::string& whole, const std::string& recipe,
                                                int step = 4) {
  const Ended killed =
      run_shell("RETORT_FAULT=retort-worker/step:" + std::to_string(step) +
                    ":kill_both " RETORT_BINARY_DIR "/bin/retort run " + recipe + " run.dir=killed",
                folder);
  EXPECT_EQ(killed.exit, 128 + SIGKILL) << killed.err;
  const Ended resumed = retort("resume killed", folder);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  const std::filesystem::path evaluation = folder / whole / "nodes/evaluate";
  for (const char* const file : {"predictions.csv", "metrics.json", "report.txt"}) {
    EXPECT_EQ(file_text(folder / "killed/nodes/evaluate" / file), file_text(evaluation / file))
        << file;
  }
  EXPECT_TRUE(std::filesystem::exists(evaluation / "metrics.json"));
}
