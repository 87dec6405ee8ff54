#pragma once

#include <cstdint>

#include "stages/data/image.h"
#include "stages/random/random.h"

namespace stages {

/// A drawn photograph of a retina, `size` x `size`: a round orange-red ground on black, with the optic disc, the macula
/// and vessels, and the lesions of `grade`, 0 to 4: none; microaneurysms; these, haemorrhages and exudates; many of
/// them in all quadrants and cotton wool spots; new vessels and bleeding before the retina. Light, colours, place and
/// side of the eye are drawn from `random` alike for all grades, so the mean colour does not tell them apart. It looks
/// enough like one to test programs; it teaches nothing about patients.
Image draw_retina(std::int64_t grade, int size, Random random);

}  // namespace stages
