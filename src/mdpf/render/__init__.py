"""A ray-caster for scenes made of upright walls: batched tensors of poses in, images and depth out, on any device.

It knows geometry and textures, and no task. Walls stand upright between a bottom and a top of their own, so a ray may pass over a
low one and under a lintel. The camera looks along the horizon, which makes a column of the image one ray seen from above: walls are
looked for once a column, and only what is painted on them once a pixel.
"""

from mdpf.render.camera import Camera
from mdpf.render.grid import GridWalls
from mdpf.render.raycast import Frames, cast, render
from mdpf.render.scene import Material, Plane, Scene, stack_scenes
from mdpf.render.segments import SegmentWalls
from mdpf.render.speed import frames_per_second
from mdpf.render.surfaces import Surfaces
from mdpf.render.textures import Atlas

__all__ = [
    "Atlas",
    "Camera",
    "Frames",
    "GridWalls",
    "Material",
    "Plane",
    "Scene",
    "SegmentWalls",
    "Surfaces",
    "cast",
    "frames_per_second",
    "render",
    "stack_scenes",
]
