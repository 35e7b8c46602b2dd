"""The endpoints of document 000, in its shapes, over the names of `compat.geist`.

Source: 000 "Proposed Geist API", "Phase 2: Update API Endpoints", "Real-time updates".
"""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/agent", tags=["document 000"])
