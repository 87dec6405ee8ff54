#include "stages/worker/rank_speed.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

constexpr std::int64_t kMostRanks = 64;  // as for device.count

/// Returns the median time of `times` sums of `bytes`, after some warm-up sums.
double median_seconds(RankGroup& group, std::int64_t bytes, int times) {
  using Clock = std::chrono::steady_clock;
  const at::Tensor message = torch::zeros({bytes / 4}, torch::kFloat);
  std::vector<double> seconds;
  for (int i = -times / 4 - 1; i < times; ++i) {
    group.wait_for_all();
    const auto begin = Clock::now();
    group.sum(message);
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

}  // namespace

std::vector<SumSpeed> measure_sums(int ranks) {
  struct Message {
    std::int64_t bytes;
    int times;
  };
  std::vector<SumSpeed> found;
  run_as_ranks(ranks, [&](const runner::RankOfRun& own) {
    for (const auto& [bytes, times] : {Message{8, 200}, {1 << 20, 50}, {kMessageBytes, 9}}) {
      const double seconds = median_seconds(*group_of(own), bytes, times);
      if (own.rank == 0) found.push_back({bytes, seconds});
    }
  });
  return found;
}

runner::Result<nlohmann::ordered_json> answer_check_ranks(const nlohmann::ordered_json& request,
                                                          const RequestContext&) {
  using Json = nlohmann::ordered_json;
  const std::int64_t ranks = request_fields(request, {"ranks"}).count("ranks");
  if (ranks < 2 || ranks > kMostRanks)
    throw std::runtime_error("check_ranks: ranks is not between 2 and 64");
  Json sums = Json::array();
  for (const SumSpeed& sum : measure_sums(static_cast<int>(ranks)))
    sums.push_back({{"bytes", sum.bytes}, {"seconds", sum.seconds}});
  return Json{{"ranks", ranks}, {"sums", std::move(sums)}};
}

}  // namespace stages
