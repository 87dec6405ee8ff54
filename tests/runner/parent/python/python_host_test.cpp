#include "runner/parent/python/python_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

class PythonHostTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path executable_ = folder_ / "bin/retort";
};

TEST_F(PythonHostTest, LibraryIsNextToTheProgramOrInALibraryFolder) {
  const auto script = folder_.write("share/retort/python_host/retort_host/__main__.py", "");
  for (const char* place : {"lib/retort", "lib", "bin"}) {
    const auto library = folder_.write(place + std::string("/libretort_worker.so"), "");
    const auto host = find_python_host(executable_);
    ASSERT_TRUE(host);
    EXPECT_EQ(host->script, script);
    EXPECT_EQ(host->library, library) << "the nearer one takes precedence";
  }
}

TEST_F(PythonHostTest, MissingPartsAreReported) {
  const auto host = find_python_host(executable_);
  ASSERT_FALSE(host);
  ASSERT_EQ(host.errors().size(), 2u);
  EXPECT_EQ(host.errors()[0].code, ErrorCode::kWorkerMissing);
  EXPECT_THAT(host.errors()[0].message, HasSubstr("no file '__main__.py' in '"));
  EXPECT_THAT(host.errors()[1].message, HasSubstr("no file 'libretort_worker.so' in '"));
}

}  // namespace
}  // namespace runner
