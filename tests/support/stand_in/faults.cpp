#include "tests/support/stand_in/faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/support/stand_in/address_space.h"

namespace stand_in {
namespace {

std::mutex mutex;
std::vector<std::string> faults;

int open_file() {
  const char* const name = std::getenv("RETORT_STAND_IN_FAULTS");
  return name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
}

const int file = open_file();

}  // namespace

void write_line(const char* text) {
  for (const int to : {STDERR_FILENO, file}) {
    if (to < 0) continue;
    for (const char* const part : {"stand-in: ", text, "\n"})
      static_cast<void>(!write(to, part, std::strlen(part)));
  }
}

void report(std::string fault) {
  write_line(fault.c_str());
  const std::lock_guard lock(mutex);
  faults.push_back(std::move(fault));
}

std::vector<std::string> take_faults() {
  if (const int pages = close_touched_pages(); pages > 0)
    report("host code touched " + std::to_string(pages) + " pages of GPU memory");
  const std::lock_guard lock(mutex);
  return std::exchange(faults, {});
}

}  // namespace stand_in
