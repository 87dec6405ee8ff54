#include "runner/shared/disk/write_error.h"

#include <gtest/gtest.h>

#include "runner/shared/disk/new_file.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(LateStorage, WrittenFilesSurviveAPowerCutAfterFlushing) {
  const TemporaryFolder folder;
  PowerCutStorage disk(folder.path());
  LateStorage late(disk);
  late.make_folder(folder / "run");
  NewFile log(folder / "run/log", late);
  log.append("one");
  write_atomically(folder / "run/summary", "running", late);
  log.sync();
  {
    const TemporaryFolder left;
    disk.leave(left.path());
    EXPECT_FALSE(std::filesystem::exists(left.path() / "run")) << "nothing was flushed";
  }
  late.write_kept();
  write_atomically(folder / "run/summary", "finished", late);
  log.append("two");
  log.sync();
  const TemporaryFolder left;
  disk.leave(left.path());
  EXPECT_EQ(left.read("run/log"), "onetwo");
  EXPECT_EQ(left.read("run/summary"), "finished");
  EXPECT_FALSE(std::filesystem::exists(left.path() / "run/summary.part"));
}

TEST(LateStorage, DiskThatCannotFlushIsAnError) {
  class Broken : public ForwardingStorage {
   public:
    int sync(int) override { return errno = EIO, -1; }
  } disk;
  const TemporaryFolder folder;
  LateStorage late(disk);
  NewFile(folder / "a", late).sync();
  EXPECT_THROW(late.write_kept(), WriteError);
}

}  // namespace
}  // namespace runner
