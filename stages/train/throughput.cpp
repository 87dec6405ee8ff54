#include "stages/train/throughput.h"

namespace stages {

void Throughput::add(double seconds, std::int64_t samples) {
  constexpr std::size_t kMarks = 17;
  marks_.push_back({seconds, samples});
  if (marks_.size() > kMarks) marks_.pop_front();
}

double Throughput::per_second() const {
  if (marks_.size() < 2) return 0;
  const double seconds = marks_.back().seconds - marks_.front().seconds;
  std::int64_t samples = 0;
  for (auto mark = marks_.begin() + 1; mark != marks_.end(); ++mark) samples += mark->samples;
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

}  // namespace stages
