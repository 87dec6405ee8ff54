#include "runner/shared/record/node_index.h"

#include <gmock/gmock.h>

#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;

std::vector<std::string> names(const std::vector<NodeFile>& files) {
  std::vector<std::string> result;
  for (const NodeFile& file : files) result.push_back(file.name);
  return result;
}

TEST(NodeFiles, AreTheRegularFilesExceptTheExecutors) {
  const TemporaryFolder folder;
  for (const char* name : {"b/c.txt", "a.txt", "finished.json", "reused.json", "b/finished.json"})
    folder.write(name, "text");
  fs::create_symlink("/etc/passwd", folder / "link");
  fs::create_directory_symlink("/etc", folder / "folder");
  EXPECT_THAT(names(node_files(folder.path())), ElementsAre("a.txt", "b/c.txt", "b/finished.json"));
}

TEST(NodeFiles, GivenFilesAreFlushed) {
  const TemporaryFolder from, to;
  from.write("notes/a.txt", "text");
  from.write("weights.safetensors", "weights");
  const WatchedCalls calls;
  give_files(from.path(), node_files(from.path()), to / "nodes/train");
  EXPECT_EQ(to.read("nodes/train/notes/a.txt"), "text");
  EXPECT_EQ(to.read("nodes/train/weights.safetensors"), "weights");
  for (const char* flushed : {"nodes", "nodes/train", "nodes/train/notes",
                              "nodes/train/notes/a.txt", "nodes/train/weights.safetensors"}) {
    EXPECT_THAT(calls.flushed(), Contains((to / flushed).string()));
  }
  EXPECT_THAT(calls.flushed(), Contains(to.path().string()));
}

TEST(NodeFiles, LinkInsteadOfAFileIsReplacedNotFollowed) {
  const TemporaryFolder from, to;
  from.write("a.txt", "text");
  to.write("victim", "precious");
  fs::create_symlink("victim", to / "a.txt");
  give_files(from.path(), node_files(from.path()), to.path());
  EXPECT_EQ(to.read("a.txt"), "text");
  EXPECT_EQ(to.read("victim"), "precious");
}

}  // namespace
}  // namespace runner
