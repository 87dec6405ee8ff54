#include "runner/shared/stage/run_layout.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(RunLayout, RecordOfAResumeIsBelowTheRunsRecord) {
  const RunLayout run("outputs/a");
  EXPECT_EQ(run.mark(), "outputs/a/.retort/run.json");
  EXPECT_EQ(run.resume(2), "outputs/a/.retort/resume-2");
}

TEST(RunLayout, NodeHasAFolderBelowNodes) {
  const NodeLayout node = RunLayout("a").node("train.0-1");
  EXPECT_EQ(node.folder(), "a/nodes/train.0-1");
  EXPECT_EQ(node.checkpoints(), "a/nodes/train.0-1/checkpoints");
}

TEST(NodeLayout, FilesWrittenByTheExecutorAreRecognized) {
  const NodeLayout node("node");
  EXPECT_TRUE(NodeLayout::is_account(node.finished().lexically_relative("node").string()));
  EXPECT_TRUE(NodeLayout::is_account(node.reused().lexically_relative("node").string()));
  EXPECT_FALSE(NodeLayout::is_account("metrics.json"));
  EXPECT_FALSE(NodeLayout::is_account("checkpoints/finished.json"));
}

}  // namespace
}  // namespace runner
