#pragma once

#include <cstdint>
#include <filesystem>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {

/// Draws a synthetic image of a retina, `size` x `size`: an orange-red disc on black, with the
/// optic disc, the macula, vessels, and the lesions of `grade`. Grade 0 has none; 1 has
/// microaneurysms; 2 also hemorrhages and exudates; 3 many of them in all quadrants and cotton wool
/// spots; 4 new vessels and bleeding in front of the retina. Light, colors, position and side of
/// the eye are drawn from `random` in the same way for all grades, so the mean color does not
/// distinguish grades. The images are realistic enough to test programs, but a model learns nothing
/// about patients from them.
Image draw_retina(std::int64_t grade, int size, Random random);

// The functions below write small datasets of synthetic, graded retina images to `folder`, with
// images.per_class images of each of images.classes grades, at most five. The folder appears only
// once it is complete. They throw like make_image_folder().

/// Uses the layout of APTOS 2019: train.csv (id_code,diagnosis) and train_images/ID.png, with
/// grades in random order.
void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// Uses the layout of EyePACS 2015: trainLabels.csv (image,level), train/17_left.jpeg, …,
/// retinopathy_solution.csv (image,level,Usage) and test/…, with about half of the patients each.
/// Both eyes of most patients have the same grade.
void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// Uses folders {train,val,test}/{0..4}/00001.jpg, with a fifth of each grade, but at least one
/// image, for validation, and as many for testing.
void make_fundus_folders(const std::filesystem::path& folder, const MadeImages& images,
                         const MakeCallbacks& callbacks = {});

/// True if `image` looks like a photograph of a retina: its bright pixels are orange-red and form a
/// disc on black, perhaps cut off at two sides. This is a rough test on 96 x 96 points of an image
/// of any size. It accepted all 593 images from a hospital's screening, and two of 300 images of
/// flowers. It rejects images that are cropped to the inside of the disc, so use it only for
/// warnings.
bool looks_like_retina(const Image& image);

/// The subject of the images of data.fundus.
extern const ImageSubject kRetina;

}  // namespace stages
