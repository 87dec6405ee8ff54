#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/loading.h"
#include "experiments/oom_claims/text.h"

namespace oom_claims {

Finding smaller_rank_and_fewer_workers_help() {
  const auto needed = [](std::int64_t rank) {
    return peak(dry_run({.network = vit_b16(224, rank), .batch = 1}));
  };
  const std::int64_t eight = needed(8), four = needed(4);
  const std::int64_t blocks = read_ahead(4, 2).device_blocks - read_ahead(0, 2).device_blocks;
  const bool rank_helps = 20 * four<19 * eight, workers_help = blocks> 0;
  return {.verdict = rank_helps && workers_help   ? Verdict::kRight
                     : rank_helps || workers_help ? Verdict::kInPart
                                                  : Verdict::kWrong,
          .measured = "ViT-B/16 with LoRA, one image: " + size(eight) + " at rank 8, " +
                      size(four) + " at rank 4 (" + change(eight, four) +
                      "); 4 loader threads instead of none allocate " + std::to_string(blocks) +
                      " blocks on the device",
          .instead = "the frozen network takes most of the memory: keep it in half precision"};
}

}  // namespace oom_claims
