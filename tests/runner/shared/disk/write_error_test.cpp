#include "runner/shared/disk/write_error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(WriteDiagnostic, FullDiskAndQuotaHaveTheirOwnCode) {
  for (const int error : {ENOSPC, EDQUOT}) {
    const Diagnostic full = write_diagnostic("a", error, ErrorCode::kCannotCreate);
    EXPECT_EQ(full.code, ErrorCode::kDiskFull);
    EXPECT_EQ(full.help, "free up space, or choose another location with run.dir");
  }
  EXPECT_EQ(write_diagnostic("a", EACCES, ErrorCode::kCannotCreate).code, ErrorCode::kCannotCreate);
  EXPECT_EQ(write_diagnostic("a", EIO, ErrorCode::kCannotWrite).code, ErrorCode::kCannotWrite);
}

TEST(WriteError, FileSizeLimitIsReported) {
  const Diagnostic error = write_diagnostic("a/log.txt", EFBIG, ErrorCode::kCannotWrite);
  EXPECT_EQ(error.message, "cannot write 'a/log.txt': File too large");
  EXPECT_EQ(error.help, "it reached the file size limit: raise it with `ulimit -f`");
}

}  // namespace
}  // namespace runner
