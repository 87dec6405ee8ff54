#include "runner/parent/report/live_text.h"

#include <algorithm>
#include <sstream>

#include "runner/shared/text/cut_to_width.h"

namespace runner {

void LiveText::draw(const std::string& text, int width) {
  std::string all;
  int count = 0;
  std::istringstream lines(text);
  // One column stays free: a full line makes some terminals wrap.
  const auto most = static_cast<std::size_t>(std::max(width - 1, 1));
  for (std::string line; std::getline(lines, line); ++count) all += cut_to_width(line, most) + "\n";
  clear();
  out_ << all << std::flush;
  lines_ = count;
}

void LiveText::clear() {
  if (lines_ > 0) out_ << "\r\x1b[" << lines_ << "A\x1b[J" << std::flush;
  lines_ = 0;
}

}  // namespace runner
