#include "runner/shared/error/system_limit.h"

#include <filesystem>
#include <new>

#include <gtest/gtest.h>

#include "runner/shared/error/stage_error.h"

namespace runner {
namespace {

std::string told(const Diagnostic& one) {
  return name(one.code) + ": " + one.message + " | " + one.help;
}

std::string told_of_system(std::errc error) {
  return told(unexpected(std::system_error(std::make_error_code(error), "fork")));
}

TEST(Unexpected, SystemLimitIsNotABug) {
  EXPECT_EQ(told_of_system(std::errc::too_many_files_open),
            "E0801: too many files are open (fork: Too many open files) | raise the "
            "limit on open files: `ulimit -n 1024`");
  EXPECT_EQ(
      told_of_system(std::errc::resource_unavailable_try_again),
      "E0703: the system cannot start more processes or threads (fork: Resource temporarily "
      "unavailable) | close other programs, or raise the limit: `ulimit -u`, or pids.max of the "
      "container");
  EXPECT_EQ(told_of_system(std::errc::not_enough_memory),
            "E0706: the system is out of memory (fork: Cannot allocate memory) | close "
            "other programs, or raise the limit: `ulimit -v`, or the container's limit");
  EXPECT_EQ(told_of_system(std::errc::no_space_on_device),
            "E0804: fork: No space left on device | free up space, then run again");
  EXPECT_EQ(unexpected(std::bad_alloc()).code, ErrorCode::kOutOfMemory);
}

TEST(Unexpected, FileSystemErrorReportsTheFile) {
  const std::filesystem::filesystem_error error("temp_directory_path", "/tmp/missing",
                                                std::make_error_code(std::errc::not_a_directory));
  EXPECT_EQ(told(unexpected(error)),
            "E0801: '/tmp/missing': Not a directory | check that it exists and that you have "
            "access to it");
}

TEST(Unexpected, KnownErrorsArePassedThrough) {
  EXPECT_EQ(told(unexpected(
                StageError(ErrorCode::kMissingFolder, "no folder 'a'").with_help("create it"))),
            "E0601: no folder 'a' | create it");
}

TEST(Unexpected, AnyOtherExceptionIsABug) {
  EXPECT_EQ(unexpected(std::runtime_error("a")).code, ErrorCode::kInternal);
  EXPECT_EQ(told_of_system(std::errc::invalid_argument),
            "E0901: fork: Invalid argument | this is a bug in Retort");
}

}  // namespace
}  // namespace runner
