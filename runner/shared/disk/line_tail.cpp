#include "runner/shared/disk/line_tail.h"

#include <sys/stat.h>

#include "runner/shared/disk/descriptor.h"

namespace runner {

LineTail::News LineTail::next(std::size_t most) {
  News news;
  struct stat facts {};
  if (::stat(file_.c_str(), &facts) != 0) return news;
  if (facts.st_ino != inode_ || facts.st_size < at_) {
    news.is_anew = inode_ != 0;
    inode_ = facts.st_ino;
    at_ = 0;
  }
  if (facts.st_size == at_) return news;
  std::ifstream file = open_regular(file_, std::ios::binary);
  file.seekg(at_);
  for (std::string line; news.lines.size() < most && std::getline(file, line) && !file.eof();) {
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    news.lines.push_back(std::move(line));
  }
  return news;
}

}  // namespace runner
